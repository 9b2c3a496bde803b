"""Logs that Linux leaves behind, replayed by Linux and by the engine.

  replay.py --look LOOK --dir DIR [OPTION...] SCENARIOS
  replay.py --look LOOK --dir DIR [OPTION...] --random SEED COUNT

Linux carries a scenario out on a loop mount that commits only when told to;
the backing file is copied while it is mounted, as a power cut would leave it.
One copy is mounted: Linux's own replay is what is expected.  The engine must
show the same when it opens the other copy read-only (which may not change
it), and leave the same behind when it opens it for writing: as Linux sees it
afterwards, with `btrfs check` and a scrub clean.

With --drive DRIVE (tests/log/drive.c) the operations after the base are done
by the engine instead, as far as it can do them: its own logs are replayed by
both.

A scenario is "= NAME [WORD...]", a section "base:", after which everything is
synced, and a section "ops:".  Operations are apart by ";" or line ends:

  create P | mkdir P | symlink TARGET P | fifo P | chardev P | link A B
  unlink P | rename A B | exchange A B | chmod P MODE | chown P UID
  setx P NAME VALUE | rmx P NAME | nocow P | compress P
  write P OFFSET LEN SEED | dwrite P OFFSET LEN SEED (O_DSYNC, fua, too)
  punch P OFFSET LEN | zero P OFFSET LEN | truncate P SIZE | reflink A B
  falloc P OFFSET LEN (keeps the size) | fallocx P OFFSET LEN (does not)
  clone A OFFSET LEN B OFFSET | writeout P | evict | fsync P | fdatasync P
  sync | subvol P (with a file P/disk) | snap A B | rmsubvol P
  hold P | fsyncheld
  open P H | tmpfile DIR H | link @H P | close H (P may be @H elsewhere)

"for N OP" repeats an operation with "%" in it standing for 0..N-1.  Numbers
may end in k or m.  Words: "nolog" (Linux is known to commit instead; without
it there must be a log), "holes" or "no-holes" (only without or with that
feature), "mixed" (mixed block groups), "no-fst" (without a free space tree), "small" (a
pool of 128 MiB, not 256), "cuts" (cut the power inside our replay, too).

Results are lines of TAP without numbers.
"""
import argparse
import ctypes
import errno
import fcntl
import hashlib
import os
import random
import re
import shutil
import stat
import struct
import subprocess
import sys

# What DRIVE can do.
DRIVEN = ("create mkdir symlink link unlink rename exchange chmod setx rmx "
          "write punch zero truncate writeout fsync sync fua reflink clone "
          "hold fsyncheld subvol rmsubvol").split()

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
        def clone(src):
            arg = struct.pack("qQQQ", src, number(at), number(length),
                              number(to))
            try:
                self.fd_do(b, lambda fd: fcntl.ioctl(fd, FICLONERANGE, arg))
            except OSError as e:
                # Two names of one file, and the ranges overlap.
                if e.errno != errno.EINVAL:
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

    op_fua = op_dwrite

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


def dmesg():
    return subprocess.run(["dmesg"], stdout=subprocess.PIPE, text=True,
                          errors="replace").stdout.splitlines()


class Mount:
    def __init__(self, image, top, options="", listen=True):
        self.image, self.top, self.listen = image, top, listen
        self.options = "loop" + ("," + options if options else "")

    def __enter__(self):
        os.makedirs(self.top, exist_ok=True)
        self.mark = dmesg()[-1:] if self.listen else []
        run("mount", "-t", "btrfs", "-o", self.options, self.image, self.top)
        self.linux = Linux(self.top)
        return self.linux

    def __exit__(self, kind, value, trace):
        self.linux.close()
        dev = run("findmnt", "-no", "SOURCE", self.top).strip()[5:]
        run("umount", self.top)
        if not self.listen or kind is not None:
            return
        lines = dmesg()
        if self.mark and self.mark[0] in lines:
            lines = lines[lines.index(self.mark[0]) + 1:]
        bad = [line for line in lines if re.search(
            r"BTRFS (error|critical|warning)", line) and dev + ")" in line]
        if bad:
            raise Failure("the kernel says: " + bad[0])


# --- looking, as look.c does ---

def checksum(data):
    return hashlib.sha256(data).hexdigest()[:16]


def line_of(top, p):
    st = os.lstat(os.path.join(top, p))
    line = "%s %o %d:%d %d %d %d.%d " % (
        p, st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_ino,
        *divmod(st.st_mtime_ns, 10 ** 9))
    full = os.path.join(top, p)
    if stat.S_ISREG(st.st_mode):
        with open(full, "rb") as f:
            line += "%d %s" % (st.st_size, checksum(f.read()))
    elif stat.S_ISLNK(st.st_mode):
        line += "%d %s" % (st.st_size, checksum(os.readlink(full).encode()))
    if not stat.S_ISLNK(st.st_mode) and st.st_ino != 256:
        for name in sorted(os.listxattr(full)):
            line += " %s=%s" % (name, checksum(os.getxattr(full, name)))
    return line


def look(top):
    paths = []
    for here, dirs, files in os.walk(top):
        paths += [os.path.relpath(os.path.join(here, name), top)
                  for name in dirs + files]
    return sorted((line_of(top, p) for p in paths), key=os.fsencode)


def compare(got, want, who):
    if got == want:
        return
    diff = ["-" + line for line in want if line not in got] + \
        ["+" + line for line in got if line not in want]
    raise Failure("%s differs:\n%s" % (who, "\n".join(diff[:12])))


def check(image):
    out = run("btrfs", "check", "--readonly", image)
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


class Bench:
    """Where scenarios are carried out."""

    def __init__(self, args):
        self.args = args
        self.image, self.linux, self.ours = (
            os.path.join(args.dir, name) for name in ("image", "linux",
                                                      "ours"))
        self.top = os.path.join(args.dir, "top")

    def make(self, s, nodesize, holes):
        if os.path.exists(self.image):
            os.unlink(self.image)
        with open(self.image, "wb") as f:
            f.truncate(128 << 20 if "small" in s.words else 256 << 20)
        options = ["-O", "^no-holes" if holes else "no-holes"]
        if "mixed" in s.words:
            options += ["-M"]
            nodesize = 4096
        if "no-fst" in s.words:
            options += ["-R", "^free-space-tree"]
        for attempt in range(5):
            try:
                run("mkfs.btrfs", "-q", "-n", str(nodesize), *options,
                    self.image)
                break
            except Failure as e:
                # A loop device of somebody else's that is just going.
                if "mount status" not in str(e) or attempt == 4:
                    raise

    def has_log(self, image):
        with open(image, "rb") as f:
            f.seek(65536 + 96)
            return struct.unpack("<Q", f.read(8))[0] != 0

    def cut(self, s):
        options = "commit=3000"
        if "no-fst" in s.words:
            options += ",space_cache=v1"
        with Mount(self.image, self.top, options, listen=False) as linux:
            for words in s.base:
                linux.op(words)
            linux.op_sync()
            # After the first commits Linux is not ready for logs yet.
            for words in expand("create .s; write .s 0 8k 1; sync; "
                                "unlink .s; sync"):
                linux.op(words)
            have = False
            for i, words in enumerate(s.ops, 1):
                linux.op(words)
                last = i == len(s.ops)
                # What is made up may end with a commit: then the last log
                # before it is taken.
                if last and not have or self.has_log(self.image) and (
                        last or self.args.random and "sync" in words[0]):
                    run("cp", "--sparse=always", self.image, self.ours)
                    have = self.has_log(self.ours)
        run("cp", "--sparse=always", self.ours, self.linux)
        os.unlink(self.image)
        return have

    @staticmethod
    def plain(word):
        if re.match("[0-9]+[km]?$", word):
            return str(number(word))
        return "/" if word == "." else word

    def drive(self, s):
        with Mount(self.image, self.top, listen=False) as linux:
            for words in s.base:
                linux.op(words)
        script = "".join(" ".join(map(self.plain, words)) + "\n"
                         for words in s.ops)
        run(self.args.drive, self.image, stdin=script)
        os.rename(self.image, self.ours)
        run("cp", "--sparse=always", self.ours, self.linux)
        return self.has_log(self.ours)

    def log_of(self, s):
        if not self.args.drive:
            return self.cut(s)
        have = self.drive(s)
        return have or not self.args.random

    def carry_out(self, s, nodesize, holes, full):
        # Now and then Linux commits for reasons of its own.
        for _ in range(5):
            self.make(s, nodesize, holes)
            if self.log_of(s) or "nolog" in s.words or self.args.any:
                break
            if self.args.random:
                return " # SKIP no log"
        else:
            raise Failure("Linux left no log")
        with Mount(self.linux, self.top, listen=False):
            want = look(self.top)
        if self.args.cut_only:
            with open(os.path.join(self.args.dir, "list"), "w") as f:
                f.write("".join(line + "\n" for line in want))
            return ""
        before = os.stat(self.ours)
        got = run(self.args.look, self.ours).splitlines()
        compare(got, want, "our view in memory")
        if os.stat(self.ours).st_mtime_ns != before.st_mtime_ns:
            raise Failure("the image was written")
        if full and "cuts" in s.words:
            out = run(self.args.look, "-c", self.ours)
            if int(out.split()[0]) < 9:
                raise Failure("too few cuts: " + out)
        run(self.args.look, "-w", self.ours)
        check(self.ours)
        with Mount(self.ours, self.top):
            compare(look(self.top), want, "what our replay left")
            if full:
                scrub(self.top)
                remove_all(self.top)
        if full:
            check(self.ours)
        return ""


# --- random scenarios ---

class Names:
    """Which operations are possible, and nothing else: a tree of names."""

    def __init__(self, rnd, length, driven):
        self.rnd, self.length, self.driven = rnd, length, driven
        self.count = 0
        self.nodes = {"": "d"}  # path -> kind: d, f, o (other)
        self.held = {}          # handle -> linkable (never named yet)
        self.ops = []

    def pick(self, kinds):
        v = [p for p, k in sorted(self.nodes.items()) if k in kinds and p]
        return self.rnd.choice(v) if v else None

    def new_name(self):
        d = self.pick("d") if self.rnd.random() < 0.65 else None
        # Few names: conflicts are what this is about.
        name = self.rnd.choice("abcdefgh")
        if self.rnd.random() < 0.1:
            name = "rather-long-" * 9 + name
        return d + "/" + name if d else name

    def below(self, p):
        return [q for q in self.nodes if q.startswith(p + "/")]

    def move(self, a, b):
        for q in [a] + self.below(a):
            self.nodes["\0" + b + q[len(a):]] = self.nodes.pop(q)

    def settle(self):
        for q in [q for q in self.nodes if q.startswith("\0")]:
            self.nodes[q[1:]] = self.nodes.pop(q)

    def put(self, *words):
        if self.driven and words[0] not in DRIVEN:
            return False
        self.ops.append([str(w) for w in words])
        return True

    def make(self, op, kind, *before):
        p = self.new_name()
        if p in self.nodes:
            return False
        self.nodes[p] = kind
        return self.put(op, *before, p)

    def unlink(self):
        p = self.pick("fffod")
        if p is None or self.below(p):
            return False
        del self.nodes[p]
        return self.put("unlink", p)

    def link(self):
        a, b = self.pick("ffffo"), self.new_name()
        if a is None or b in self.nodes:
            return False
        self.nodes[b] = self.nodes[a]
        return self.put("link", a, b)

    def rename(self):
        a = self.pick("fod")
        b = self.new_name() if self.rnd.random() < 0.6 else self.pick("fod")
        if a is None or b is None or a == b or b.startswith(a + "/") or \
                a.startswith(b + "/"):
            return False
        if b in self.nodes:
            if (self.nodes[a] == "d") != (self.nodes[b] == "d") or \
                    self.below(b):
                return False
            # Two names of one inode: then nothing happens.
            self.put("unlink", b)
            del self.nodes[b]
        self.move(a, b)
        self.settle()
        return self.put("rename", a, b)

    def exchange(self):
        a, b = self.pick("fod"), self.pick("fod")
        if a is None or a == b or b.startswith(a + "/") or \
                a.startswith(b + "/"):
            return False
        self.move(a, b)
        self.move(b, a)
        self.settle()
        return self.put("exchange", a, b)

    def target(self):
        if self.held and self.rnd.random() < 0.1:
            return "@" + self.rnd.choice(sorted(self.held))
        return self.pick("f")

    def some_range(self):
        unit = self.rnd.choice([1, 512, 4096, 4096, 16384])
        return (self.rnd.randrange(60) * unit,
                self.rnd.randrange(1, 20) * unit)

    def contents(self):
        p, c = self.target(), self.rnd.randrange(100)
        if p is None:
            return False
        at, length = self.some_range()
        if c < 50:
            return self.put("write", p, at, length, self.count)
        if c < 62:
            return self.put("truncate", p, self.rnd.choice(
                [0, at, at + length, 100000]))
        if self.driven and c < 75: # not beyond the end there
            self.put("truncate", p, at + length)
        if c < 70:
            return self.put("punch", p, at, length)
        if c < 75:
            return self.put("zero", p, at, length)
        if c < 82:
            return self.put("falloc", p, at, length)
        if c < 86:
            return self.put("fallocx", p, at, length)
        if c < 91:
            return self.put("writeout", p)
        if c < 94 and not p.startswith("@"):
            return self.put("dwrite", p, at, length, self.count)
        other = self.pick("f")
        at, to = self.rnd.randrange(8), self.rnd.randrange(8, 30)
        # The source may be too short: made long enough.  Files with and
        # without checksums do not mix.
        if other is None or p.startswith("@") or other == p:
            return False
        self.put("write", other, 4096 * at, 16384, self.count)
        return self.put("clone", other, 4096 * at, 16384, p, 4096 * to)

    def handle(self):
        h = "h%d" % self.count
        if self.rnd.random() < 0.4:
            self.held[h] = True
            return self.put("tmpfile", self.pick("d") or ".", h)
        p = self.pick("f")
        if p is None:
            return False
        self.held[h] = False
        return self.put("open", p, h)

    def link_handle(self):
        v = [h for h in sorted(self.held) if self.held[h]]
        p = self.new_name()
        if not v or p in self.nodes:
            return False
        self.held[v[0]] = False
        self.nodes[p] = "f"
        return self.put("link", "@" + v[0], p)

    def other(self):
        p, c = self.pick("ffdo"), self.rnd.randrange(100)
        if p is None:
            return False
        if c < 20:
            return self.put("chmod", p, self.rnd.choice(["600", "755"])) \
                if self.nodes[p] != "o" else False
        if c < 30:
            return self.put("chown", p, self.count)
        if c < 40:
            return self.put("evict")
        if self.nodes[p] == "o":
            return False
        x = "user.x%d" % self.rnd.randrange(3)
        self.put("setx", p, x, "v%d" % self.count)
        return self.put("rmx", p, x) if c > 75 else True

    def sync(self):
        c = self.rnd.randrange(100)
        p = self.target() if c < 50 else self.pick("d")
        if c > 92:
            p = "."
        return p is not None and self.put(
            "fdatasync" if c % 7 == 0 and not self.driven else "fsync", p)

    def one(self):
        self.count += 1
        kinds = (
            (18, lambda: self.make("create", "f")),
            (7, lambda: self.make("mkdir", "d")),
            (2, lambda: self.make("symlink", "o", "to%d" % self.count)),
            (0 if self.driven else 1, lambda: self.make("fifo", "o")),
            (8, self.link), (13, self.unlink), (18, self.rename),
            (6, self.exchange), (20, self.contents), (6, self.other),
            (0 if self.driven else 2, self.handle),
            (0 if self.driven else 2, self.link_handle))
        c = self.rnd.randrange(sum(k[0] for k in kinds))
        for weight, fn in kinds:
            if c < weight:
                return fn()
            c -= weight

    def some(self, n):
        while n > 0:
            n -= 1 if self.one() else 0


def invent(seed, length, driven):
    rnd = random.Random(seed)
    n = Names(rnd, length, driven)
    s = Scenario("random-%d" % seed, [])
    n.some(rnd.randrange(5, 30))
    s.base, n.ops = n.ops, []
    for _ in range(rnd.randrange(1, 8)):
        n.some(rnd.randrange(1, length))
        n.sync()
    if rnd.random() < 0.3:
        n.some(rnd.randrange(1, length))
    s.ops = n.ops
    return s


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--look", required=True)
    a.add_argument("--dir", required=True)
    a.add_argument("--drive", help="the engine writes the log")
    a.add_argument("--nodesize", type=int, default=16384)
    a.add_argument("--holes", action="store_true",
                   help="without the feature no-holes")
    a.add_argument("--rotate", type=int, metavar="N",
                   help="each in one of the four kinds of pool, from the "
                   "N-th on")
    a.add_argument("--only", default="", help="names that match")
    a.add_argument("--random", nargs=2, type=int, metavar=("SEED", "COUNT"))
    a.add_argument("--length", type=int, default=10)
    a.add_argument("--fast", action="store_true",
                   help="no scrub, no cuts, nothing removed")
    a.add_argument("--any", action="store_true",
                   help="Linux may commit as it likes")
    a.add_argument("--cut-only", action="store_true",
                   help="nothing but the image after the cut, DIR/ours, "
                   "and what Linux makes of it, DIR/list")
    a.add_argument("scenarios", nargs="?")
    args = a.parse_args()
    if args.random:
        scenarios = [invent(args.random[0] + i, args.length, args.drive)
                     for i in range(args.random[1])]
    else:
        scenarios = parse(args.scenarios)
    bench = Bench(args)
    for i, s in enumerate(scenarios):
        nodesize, holes = args.nodesize, args.holes
        if args.rotate is not None:
            n = i + args.rotate
            nodesize, holes = (4096, 16384)[n % 2], n // 2 % 2 == 1
            if "holes" in s.words or "no-holes" in s.words:
                holes = "holes" in s.words
        if args.drive and any(w[0] not in DRIVEN or "@" in "".join(w)
                              for w in s.ops):
            continue
        if not re.search(args.only, s.name) or \
                ("no-holes" if holes else "holes") in s.words:
            continue
        kind = "%dK%s" % (nodesize >> 10, ", holes" if holes else "")
        try:
            note = bench.carry_out(s, nodesize, holes, not args.fast)
            print("ok - %s: %s%s" % (s.name, kind, note))
        except (Failure, OSError, subprocess.SubprocessError) as e:
            print("not ok - %s: %s" % (s.name, kind))
            print("# " + str(e).replace("\n", "\n# "))
            for text in s.texts():
                print("# " + text)
        sys.stdout.flush()


main()
