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

linux.py has the language.  Words: "nolog" (Linux is known to commit instead; without
it there must be a log), "holes" or "no-holes" (only without or with that
feature), "mixed" (mixed block groups), "no-fst" (without a free space tree), "small" (a
pool of 128 MiB, not 256), "cuts" (cut the power inside our replay, too).

Results are lines of TAP without numbers.
"""
import argparse
import hashlib
import os
import random
import re
import stat
import struct
import subprocess
import sys

from linux import (Failure, Mount, Scenario, check, expand, make_pool, number,
                   parse, remove_all, run, scrub)

# What DRIVE can do.
DRIVEN = ("create mkdir symlink link unlink rename exchange chmod setx rmx "
          "write punch zero truncate writeout fsync sync fua reflink clone "
          "hold fsyncheld subvol rmsubvol").split()


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


class Bench:
    """Where scenarios are carried out."""

    def __init__(self, args):
        self.args = args
        self.image, self.linux, self.ours = (
            os.path.join(args.dir, name) for name in ("image", "linux",
                                                      "ours"))
        self.top = os.path.join(args.dir, "top")

    def make(self, s, nodesize, holes):
        options = ["-O", "^no-holes" if holes else "no-holes"]
        if "mixed" in s.words:
            options += ["-M"]
            nodesize = 4096
        if "no-fst" in s.words:
            options += ["-R", "^free-space-tree"]
        if os.path.exists(self.image):
            os.unlink(self.image)
        make_pool(self.image, (128 if "small" in s.words else 256) << 20,
                  "-n", str(nodesize), *options)

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
