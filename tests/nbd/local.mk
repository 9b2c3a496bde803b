# The plugin under nbdkit, judged by real clients.
NBD_TESTS = \
	tests/nbd/clients.sh \
	tests/nbd/copy.sh \
	tests/nbd/discard.sh \
	tests/nbd/enospc.sh \
	tests/nbd/fio.sh \
	tests/nbd/fuse.sh \
	tests/nbd/image.sh \
	tests/nbd/info.sh \
	tests/nbd/io.sh \
	tests/nbd/kernel.sh \
	tests/nbd/memory.sh \
	tests/nbd/params.sh \
	tests/nbd/qemu-io.sh \
	tests/nbd/snapshots.sh \
	tests/nbd/soak.sh \
	tests/nbd/signals.sh
TESTS += $(NBD_TESTS)
EXTRA_DIST += $(NBD_TESTS) tests/nbd/nbd.sh tests/nbd/snapshots.py
