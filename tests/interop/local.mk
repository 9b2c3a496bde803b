# The Linux kernel and btrfs check as judges.
interop_tests = \
	tests/interop/both-ways.sh \
	tests/interop/commits.sh \
	tests/interop/hard-cases.sh \
	tests/interop/left-behind.sh \
	tests/interop/log.sh \
	tests/interop/mkfs.sh \
	tests/interop/odd-pools.sh \
	tests/interop/shared.sh \
	tests/interop/snapshots.sh
dist_check_SCRIPTS += $(interop_tests)
TESTS += $(interop_tests)
