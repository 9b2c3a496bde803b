# The Linux kernel and btrfs check as judges.
dist_check_SCRIPTS += tests/interop/both-ways.sh tests/interop/commits.sh \
	tests/interop/log.sh tests/interop/mkfs.sh \
	tests/interop/odd-pools.sh tests/interop/shared.sh
TESTS += tests/interop/both-ways.sh tests/interop/commits.sh \
	tests/interop/log.sh tests/interop/mkfs.sh \
	tests/interop/odd-pools.sh tests/interop/shared.sh
