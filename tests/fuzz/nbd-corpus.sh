#!/bin/bash
# nbd-corpus.sh BUILD-FUZZ [SECONDS]: make tests/fuzz/corpus-nbd anew, from
# valid sessions (nbd-seeds), the kept inputs and what SECONDS (120) of fuzzing
# find, reduced to one input for each thing that is reached.  ci/fuzz builds
# BUILD-FUZZ.
set -eu
dir=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)/tests/fuzz
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/seeds" "$tmp/found" "$tmp/corpus"
"$bin/nbd-seeds" "$tmp/seeds" 500
[ ! -d "$dir/corpus-nbd" ] || cp "$dir"/corpus-nbd/* "$tmp/seeds"
"$bin/fuzz-nbd" -max_total_time="${2:-120}" -timeout=20 -max_len=4200 \
  "$tmp/found" "$tmp/seeds"
"$bin/fuzz-nbd" -merge=1 -max_len=4200 "$tmp/corpus" "$tmp/seeds" "$tmp/found"
rm -rf "$dir/corpus-nbd"
mv "$tmp/corpus" "$dir/corpus-nbd"
echo "$(ls "$dir/corpus-nbd" | wc -l) inputs"
