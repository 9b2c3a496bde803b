# The Linux kernel and btrfs check as judges.
dist_check_SCRIPTS += tests/interop/both-ways.sh tests/interop/mkfs.sh
TESTS += tests/interop/both-ways.sh tests/interop/mkfs.sh
