#!/bin/bash
# Make the image with a log that fuzzing starts from, with Linux (root), and
# pack it:  make-image.sh LOOK PACKER OUTPUT
# (tests/log/look, tests/corrupt/pack).  The result is kept, so that fuzzing
# needs neither root nor mkfs.btrfs.

set -e
look=$(realpath "$1")
packer=$(realpath "$2")
output=$(realpath "$3")
here=$(dirname "$(realpath "$0")")
tmp=$(mktemp -d)
trap 'umount "$tmp/top" 2>/dev/null; rm -rf "$tmp"' EXIT

python3 "$here/replay.py" --look "$look" --dir "$tmp" --nodesize 4096 \
  --cut-only --only '^everything$' "$here/replay-scenarios"
"$packer" "$tmp/ours" "$output"
