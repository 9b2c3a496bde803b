#!/bin/bash
# Make the image with a log that fuzzing starts from, with Linux (root), and
# pack it:  make-image.sh PACKER OUTPUT LIST
# (tests/corrupt/pack; LIST: what Linux's replay makes of it).  The result is
# kept, so that fuzzing and tests/log/odd need neither root nor mkfs.btrfs.

set -e
packer=$(realpath "$1")
output=$(realpath "$2")
list=$(realpath "$3")
here=$(dirname "$(realpath "$0")")
tmp=$(mktemp -d)
trap 'umount "$tmp/top" 2>/dev/null; rm -rf "$tmp"' EXIT

python3 "$here/replay.py" --look true --dir "$tmp" --nodesize 4096 \
  --cut-only --only '^everything$' "$here/replay-scenarios"
"$packer" "$tmp/ours" "$output"
cp "$tmp/list" "$list"
