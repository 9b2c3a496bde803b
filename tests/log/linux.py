"""What fsync.py and replay.py do with Linux: scenarios of operations, carried
out on loop mounts, and judged.

A scenario is "= NAME [WORD...]", a section "base:", after which everything is
synced, and a section "ops:".  Operations are apart by ";" or line ends:

  create P | mkdir P | symlink TARGET P | fifo P | chardev P | link A B
  unlink P | rename A B | exchange A B | chmod P MODE | chown P UID
  setx P NAME VALUE | rmx P NAME | nocow P (empty file) | compress P
  write P OFFSET LEN SEED | dwrite P OFFSET LEN SEED (O_DSYNC, fua, too)
  punch P OFFSET LEN | zero P OFFSET LEN | truncate P SIZE
  falloc P OFFSET LEN (keeps the size) | fallocx P OFFSET LEN (does not)
  reflink A B (a new file) | clone A OFFSET LEN B OFFSET
  writeout P | evict | fsync P | fdatasync P | sync
  subvol P (with a file P/disk) | snap A B (snapshot, too) | rmsubvol P
  hold P (an open file) | fsyncheld
  open P H | tmpfile DIR H | link @H P | close H (P may be @H elsewhere)

"for N OP" repeats an operation with "%" in it standing for 0..N-1.  Numbers
may end in k or m.
"""
import ctypes
import errno
import fcntl
import os
import re
import stat
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import kmsg  # noqa: E402

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
AT_EMPTY_PATH, AT_SYMLINK_FOLLOW = 0x1000, 0x400
RENAME_EXCHANGE = 2
FALLOC_KEEP_SIZE, FALLOC_PUNCH, FALLOC_ZERO = 1, 2, 16
FICLONERANGE = 0x4020940D
BLOCK = 512


class Failure(Exception):
    pass


def run(*args, stdin=""):
    p = subprocess.run(args, input=stdin, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    if p.returncode != 0:
        raise Failure("%s: status %d: %s" % (" ".join(args), p.returncode,
                                             p.stdout.strip()))
    return p.stdout


def checked(r):
    if r != 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))


def number(s):
    return int(s[:-1]) * {"k": 1 << 10, "m": 1 << 20}[s[-1]] \
        if s[-1] in "km" else int(s)


def pattern(at, length, seed):
    """As drive.c writes it."""
    out = bytearray()
    first = at // BLOCK
    for block in range(first, (at + length + BLOCK - 1) // BLOCK):
        out += bytes([(seed * 37 + block * 11) % 251 + 1]) * BLOCK
    return bytes(out[at - first * BLOCK:at - first * BLOCK + length])


# --- operations ---

class Linux:
    """Operations on a mounted pool."""

    def __init__(self, top):
        self.top = top
        self.handles = {}

    def close(self):
        for fd in self.handles.values():
            os.close(fd)
        self.handles = {}

    def at(self, p):
        return os.path.join(self.top, p)

    def op(self, words):
        getattr(self, "op_" + words[0])(*words[1:])

    def fd_do(self, p, fn, flags=os.O_RDWR):
        if p.startswith("@"):
            return fn(self.handles[p[1:]])
        fd = os.open(self.at(p), flags | os.O_NOFOLLOW, 0o644)
        try:
            return fn(fd)
        finally:
            os.close(fd)

    def fallocate(self, p, mode, at, length):
        self.fd_do(p, lambda fd: checked(libc.fallocate(
            fd, mode, ctypes.c_long(number(at)),
            ctypes.c_long(number(length)))))

    def op_create(self, p):
        self.fd_do(p, lambda fd: None, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def op_mkdir(self, p):
        os.mkdir(self.at(p), 0o755)

    def op_symlink(self, target, p):
        os.symlink(target, self.at(p))

    def op_fifo(self, p):
        os.mkfifo(self.at(p), 0o600)

    def op_chardev(self, p):
        os.mknod(self.at(p), stat.S_IFCHR | 0o600, os.makedev(300, 70000))

    def op_link(self, a, b):
        if a.startswith("@"):
            checked(libc.linkat(self.handles[a[1:]], b"", AT_FDCWD,
                                self.at(b).encode(), AT_EMPTY_PATH))
        else:
            os.link(self.at(a), self.at(b), follow_symlinks=False)

    def op_unlink(self, p):
        if stat.S_ISDIR(os.lstat(self.at(p)).st_mode):
            os.rmdir(self.at(p))
        else:
            os.unlink(self.at(p))

    def op_rename(self, a, b):
        os.rename(self.at(a), self.at(b))

    def op_exchange(self, a, b):
        checked(libc.renameat2(AT_FDCWD, self.at(a).encode(), AT_FDCWD,
                               self.at(b).encode(), RENAME_EXCHANGE))

    def op_chmod(self, p, mode):
        os.chmod(self.at(p), int(mode, 8))

    def op_chown(self, p, uid):
        os.lchown(self.at(p), int(uid), -1)

    def op_setx(self, p, name, value):
        os.setxattr(self.at(p), name, value.encode())

    def op_rmx(self, p, name):
        os.removexattr(self.at(p), name)

    def op_nocow(self, p):
        run("chattr", "+C", self.at(p))

    def op_compress(self, p):
        run("chattr", "+c", self.at(p))

    def op_write(self, p, at, length, seed, flags=os.O_RDWR):
        data = pattern(number(at), number(length), int(seed))
        self.fd_do(p, lambda fd: os.pwrite(fd, data, number(at)), flags)

    def op_dwrite(self, p, at, length, seed):
        self.op_write(p, at, length, seed, os.O_RDWR | os.O_DSYNC)

    def op_punch(self, p, at, length):
        self.fallocate(p, FALLOC_PUNCH | FALLOC_KEEP_SIZE, at, length)

    def op_zero(self, p, at, length):
        self.fallocate(p, FALLOC_ZERO | FALLOC_KEEP_SIZE, at, length)

    def op_falloc(self, p, at, length):
        self.fallocate(p, FALLOC_KEEP_SIZE, at, length)

    def op_fallocx(self, p, at, length):
        self.fallocate(p, 0, at, length)

    def op_truncate(self, p, size):
        self.fd_do(p, lambda fd: os.ftruncate(fd, number(size)))

    def op_reflink(self, a, b):
        run("cp", "--reflink=always", self.at(a), self.at(b))

    def op_clone(self, a, at, length, b, to):
        at, length, to = number(at), number(length), number(to)

        def overlap():
            return abs(at - to) < length and \
                os.path.samefile(self.at(a), self.at(b))

        def clone(src):
            arg = struct.pack("qQQQ", src, at, length, to)
            try:
                self.fd_do(b, lambda fd: fcntl.ioctl(fd, FICLONERANGE, arg))
            except OSError as e:
                # Who makes scenarios up does not know of two names of a file.
                if e.errno != errno.EINVAL or not overlap():
                    raise
        self.fd_do(a, clone)

    def op_writeout(self, p):
        self.fd_do(p, lambda fd: checked(libc.sync_file_range(
            fd, ctypes.c_long(0), ctypes.c_long(0), 7)))

    def op_evict(self):
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("2")

    def op_fsync(self, p):
        self.fd_do(p, os.fsync, os.O_RDONLY)

    def op_fdatasync(self, p):
        self.fd_do(p, os.fdatasync, os.O_RDONLY)

    def op_sync(self):
        self.fd_do(".", lambda fd: checked(libc.syncfs(fd)), os.O_RDONLY)

    def op_hold(self, p):
        self.op_open(p, "held")

    def op_fsyncheld(self):
        self.op_fsync("@held")

    def op_subvol(self, p):
        run("btrfs", "-q", "subvolume", "create", self.at(p))
        self.op_create(p + "/disk")
        self.op_chmod(p + "/disk", "600")
        self.op_truncate(p + "/disk", "1m")

    def op_snap(self, a, b):
        run("btrfs", "-q", "subvolume", "snapshot", self.at(a), self.at(b))

    def op_rmsubvol(self, p):
        run("btrfs", "-q", "subvolume", "delete", self.at(p))

    def op_open(self, p, h):
        self.handles[h] = os.open(self.at(p), os.O_RDWR)

    def op_tmpfile(self, p, h):
        self.handles[h] = os.open(self.at(p), os.O_RDWR | os.O_TMPFILE,
                                  0o644)

    def op_close(self, h):
        os.close(self.handles.pop(h))

    op_fua, op_snapshot = op_dwrite, op_snap


class Mount:
    """A pool in a file, mounted; complaints of the kernel are a failure,
    unless it is not listened to."""

    def __init__(self, image, top, options="", listen=True):
        self.image, self.top, self.listen = image, top, listen
        self.options = ["-o", options] if options else []

    def take_loop(self):
        """The loop device is ours for as long as it is held open."""
        dev = run("losetup", "--show", "-f", self.image).strip()
        self.hold = os.open(dev, os.O_RDONLY)
        self.dev = os.path.basename(dev)
        self.file = self.backing_file()
        run("losetup", "-d", dev)
        return dev

    def backing_file(self):
        try:
            with open("/sys/block/%s/loop/backing_file" % self.dev) as f:
                return f.read()
        except OSError:
            return None

    def give_back(self):
        """Programs that look at all devices may hold it for a moment."""
        os.close(self.hold)
        end = time.monotonic() + 20
        while self.backing_file() == self.file:
            if time.monotonic() > end:
                raise Failure(self.dev + " does not go")
            time.sleep(0.01)

    def __enter__(self):
        os.makedirs(self.top, exist_ok=True)
        dev = self.take_loop()
        try:
            self.mark = kmsg.mark() if self.listen else None
            run("mount", "-t", "btrfs", *self.options, dev, self.top)
        except BaseException:
            os.close(self.hold)
            raise
        self.linux = Linux(self.top)
        return self.linux

    def __exit__(self, kind, value, trace):
        try:
            self.linux.close()
            run("umount", self.top)
            said = kmsg.complaints(self.mark, self.dev) if self.listen else []
        finally:
            self.give_back()
        if said and kind is None:
            raise Failure("the kernel says: " + said[0])


# --- judges ---

def patient(*args):
    """btrfs-progs look at all mounts of the machine, and give up when the
    loop device under one of them is just going away."""
    for attempt in range(5):
        try:
            return run(*args)
        except Failure as e:
            if "mount status" not in str(e) or attempt == 4:
                raise


def make_pool(image, size, *options):
    with open(image, "wb") as f:
        f.truncate(size)
    patient("mkfs.btrfs", "-q", *options, image)


def check(image):
    out = patient("btrfs", "check", "--readonly", image)
    if "no error found" not in out or re.search(
            "^ERROR|^WARNING|mismatch|bad |wrong |missing", out, re.M):
        raise Failure("btrfs check: " + out)


def scrub(top):
    out = run("btrfs", "scrub", "start", "-BR", top)
    if re.search(r"_errors: [^0]", out) or "data_bytes_scrubbed" not in out:
        raise Failure("scrub: " + out)


def remove_all(top):
    """Nothing may be left that cannot be removed."""
    for here, dirs, files in os.walk(top, topdown=False):
        for name in dirs + files:
            p = os.path.join(here, name)
            st = os.lstat(p)
            if stat.S_ISDIR(st.st_mode):
                if st.st_ino == 256:
                    run("btrfs", "-q", "subvolume", "delete", p)
                else:
                    os.rmdir(p)
            else:
                os.unlink(p)


# --- scenarios ---

class Scenario:
    def __init__(self, name, words):
        self.name, self.words = name, words
        self.base, self.ops = [], []

    def texts(self):
        for what, ops in (("base", self.base), ("ops", self.ops)):
            yield "%s: %s" % (what, "; ".join(map(" ".join, ops)))


def expand(text):
    for part in text.split(";"):
        words = part.split()
        if words[:1] == ["for"]:
            for i in range(int(words[1])):
                yield [w.replace("%", str(i)) for w in words[2:]]
        elif words:
            yield words


def parse(path):
    scenarios, section = [], None
    with open(path) as f:
        for line in f:
            line = line.split("#")[0].strip()
            if line.startswith("="):
                words = line[1:].split()
                scenarios.append(Scenario(words[0], words[1:]))
                continue
            m = re.match("(base|ops):(.*)", line)
            if m:
                section, line = m.groups()
            if line:
                getattr(scenarios[-1], section).extend(expand(line))
    return scenarios
