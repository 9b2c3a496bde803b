# btrnbd from the outside.
cli_tests = \
	tests/cli/copy.sh \
	tests/cli/mkfs.sh \
	tests/cli/names.sh \
	tests/cli/quickstart.sh \
	tests/cli/served-btrnbdd.sh \
	tests/cli/served-nbdkit.sh \
	tests/cli/server.sh \
	tests/cli/snapshots.sh \
	tests/cli/super-copy.sh \
	tests/cli/usage.sh
dist_check_SCRIPTS += $(cli_tests)
TESTS += $(cli_tests)
