"""Scripts of file operations with fsync, cut by a power failure.

  fsync.py --drive DRIVE --dir DIR [OPTION...] SCENARIOS

The engine carries the operations out (tests/log/drive.c), Linux replays, and
the engine itself a copy; both results must agree with a model.

linux.py has the language; of its operations drive.c knows a part, and Linux
those of "base:".  Words: "log" (everything must be served by the log),
"commit" (something must have become a commit), "no-holes" or "holes" (only
with or without that feature).  reflink and clone are durable.

Results are lines of TAP without numbers; --random SEED COUNT makes scenarios
up instead.
"""
import argparse
import copy
import os
import random
import re
import shutil
import stat
import subprocess
import sys

from linux import (BLOCK, Failure, Mount, Scenario, check, make_pool, parse,
                   pattern, remove_all, run)


# --- the model ---

class Inode:
    def __init__(self, kind, mode, target=None):
        self.kind, self.mode, self.target = kind, mode, target
        self.data, self.xattrs, self.entries = bytearray(), {}, {}

    def state(self):
        return (bytes(self.data), self.mode, tuple(sorted(self.xattrs.items())))


class Model:
    """What the operations make of the files, and what fsync promises."""

    def __init__(self):
        self.inodes = {1: Inode("d", 0o755)}
        self.next = 2
        self.events = []        # (path -> inode number, number -> Inode)
        self.explicit = {}      # number -> event that synced it
        self.moved = set()      # numbers with names not yet promised
        self.promised = 0       # event that promised names last

    def find(self, path):
        n = 1
        for part in path.split("/"):
            n = self.inodes[n].entries[part] if part != "." else n
        return n

    def parent(self, path):
        head, _, tail = path.rpartition("/")
        return self.find(head) if head else 1, tail

    def get(self, path):
        return self.inodes[self.find(path)]

    def add(self, path, inode):
        d, name = self.parent(path)
        n, self.next = self.next, self.next + 1
        self.inodes[n] = inode
        self.inodes[d].entries[name] = n
        self.moved |= {d, n}
        return n

    def paths(self):
        found = {}

        def walk(n, prefix):
            for name, child in self.inodes[n].entries.items():
                found[prefix + name] = child
                if self.inodes[child].kind == "d":
                    walk(child, prefix + name + "/")
        walk(1, "")
        return found

    def event(self, number):
        """Something was synced: inode NUMBER, or everything (None)."""
        paths = self.paths()
        self.events.append((paths, copy.deepcopy(self.inodes)))
        here = len(self.events) - 1
        if number is None or number in self.moved:
            self.moved.clear()
            self.promised = here
        for n in self.inodes if number is None else [number]:
            self.explicit[n] = here

    def op(self, words):
        getattr(self, "op_" + words[0])(*words[1:])

    def op_create(self, p):
        self.add(p, Inode("f", 0o644))

    def op_mkdir(self, p):
        self.add(p, Inode("d", 0o755))

    def op_subvol(self, p):
        self.add(p, Inode("d", 0o755))
        n = self.add(p + "/disk", Inode("f", 0o600))
        self.inodes[n].data = bytearray(1 << 20)

    def op_rmsubvol(self, p):
        self.op_unlink(p)

    def op_symlink(self, target, p):
        self.add(p, Inode("l", 0o777, target))

    def op_link(self, a, b):
        n = self.find(a)
        d, name = self.parent(b)
        self.inodes[d].entries[name] = n
        self.moved |= {d, n}

    def op_unlink(self, p):
        d, name = self.parent(p)
        self.moved |= {d, self.inodes[d].entries.pop(name)}

    def op_rename(self, a, b):
        (d, name), (e, other) = self.parent(a), self.parent(b)
        n = self.inodes[d].entries.pop(name)
        self.moved |= {d, e, n, self.inodes[e].entries.get(other, n)}
        self.inodes[e].entries[other] = n

    def op_exchange(self, a, b):
        (d, name), (e, other) = self.parent(a), self.parent(b)
        n, m = self.inodes[d].entries[name], self.inodes[e].entries[other]
        self.inodes[d].entries[name], self.inodes[e].entries[other] = m, n
        self.moved |= {d, e, n, m}

    def op_chmod(self, p, mode):
        self.get(p).mode = int(mode, 8)

    def op_setx(self, p, name, value):
        self.get(p).xattrs[name] = value

    def op_rmx(self, p, name):
        del self.get(p).xattrs[name]

    def put(self, p, at, data):
        inode = self.get(p)
        inode.data.extend(bytes(max(0, at - len(inode.data))))
        inode.data[at:at + len(data)] = data

    def op_write(self, p, at, length, seed):
        self.put(p, int(at), pattern(int(at), int(length), int(seed)))

    def op_punch(self, p, at, length):
        at, size = int(at), len(self.get(p).data)
        if at < size:
            self.put(p, at, bytes(min(int(length), size - at)))

    op_zero = op_punch

    def op_truncate(self, p, size):
        inode, size = self.get(p), int(size)
        del inode.data[size:]
        inode.data.extend(bytes(size - len(inode.data)))

    def op_reflink(self, a, b):
        n = self.add(b, Inode("f", self.get(a).mode))
        self.inodes[n].data = bytearray(self.get(a).data)
        self.event(n)

    def op_falloc(self, p, at, length):
        pass

    def op_nocow(self, p):
        pass

    op_compress = op_writeout = op_hold = op_nocow

    def op_clone(self, a, start, length, b, to):
        data = self.get(a).data[int(start):int(start) + int(length)]
        self.put(b, int(to), data)
        self.event(self.find(b))

    def op_snapshot(self, a, b):
        def copy_below(n):
            m = self.add("+", copy.deepcopy(self.inodes[n]))
            del self.inodes[1].entries["+"]
            for name, child in self.inodes[m].entries.items():
                self.inodes[m].entries[name] = copy_below(child)
            return m
        d, name = self.parent(b)
        self.inodes[d].entries[name] = copy_below(self.find(a))

    def op_fua(self, p, at, length, seed):
        self.op_write(p, at, length, seed)
        self.op_fsync(p)

    def op_fsyncheld(self):
        self.events.append((self.paths(), copy.deepcopy(self.inodes)))

    def op_fsync(self, p):
        self.event(self.find(p))

    def op_sync(self):
        self.event(None)


# --- judging ---

def look(top):
    """path -> (kind, mode, content, xattrs, inode, links)"""
    found = {}
    for here, dirs, files in os.walk(top):
        for name in dirs + files:
            p = os.path.join(here, name)
            st = os.lstat(p)
            kind, content, xattrs = "d", b"", ()
            if stat.S_ISLNK(st.st_mode):
                kind, content = "l", os.readlink(p).encode()
            elif stat.S_ISREG(st.st_mode):
                kind = "f"
                with open(p, "rb") as f:
                    content = f.read()
            if kind != "l":
                xattrs = tuple(sorted(
                    (x, os.getxattr(p, x).decode("latin-1"))
                    for x in os.listxattr(p) if x.startswith("user.")))
            found[os.path.relpath(p, top)] = (
                kind, stat.S_IMODE(st.st_mode), content, xattrs,
                (st.st_dev, st.st_ino), st.st_nlink)
    return found


def names_differ(got, paths, inodes):
    """None when GOT has just the names of PATHS, links included."""
    for p in sorted(set(got) | set(paths)):
        if p not in got:
            return p + " is missing"
        if p not in paths:
            return p + " should not be there"
        if got[p][0] != inodes[paths[p]].kind:
            return p + " is of kind " + got[p][0]
    there, back = {}, {}
    for p, n in paths.items():
        if there.setdefault(n, got[p][4]) != got[p][4]:
            return p + " is another file than its other name"
        if back.setdefault(got[p][4], n) != n:
            return p + " is the same file as another name"
        if inodes[n].kind == "l" and got[p][2].decode() != inodes[n].target:
            return p + " leads elsewhere"
    return None


def mixture(content, versions):
    """Is every block of CONTENT that of some version, or zero?"""
    if len(content) not in [len(v) for v in versions]:
        return False
    for at in range(0, len(content), BLOCK):
        block = content[at:at + BLOCK]
        if block.strip(b"\0") and block not in [
                v[at:at + len(block)] for v in versions]:
            return False
    return True


def file_differs(model, n, got):
    """None when what was found is what inode N may be after the cut."""
    kind, mode, content, xattrs = got[:4]
    first = model.explicit.get(n)
    states = [e[1][n].state() for e in model.events[first or 0:]
              if n in e[1]]
    last = model.inodes[n].state()
    if first is not None and all(s == last for s in states):
        good = [last]
    else:
        good = states + [last]
    if xattrs not in [s[2] for s in good]:
        return "attributes are %r, not %r" % (xattrs, good[0][2])
    if mode not in [s[1] for s in good]:
        return "mode is %o" % mode
    versions = [s[0] for s in good]
    if kind != "f" or content in versions:
        return None
    if first is None and content == b"":
        return None
    if versions[-1] != versions[0] or first is None:
        if mixture(content, versions):
            return None
    for v in versions[:1]:
        if len(v) != len(content):
            return "size is %d, not %d" % (len(content), len(v))
        at = next(i for i in range(len(v)) if v[i] != content[i])
        return "differs at %d: %d, not %d" % (at, content[at], v[at])
    return "contents"


def judge(model, got):
    why = None
    for paths, inodes in reversed(model.events[model.promised:]):
        differs = names_differ(got, paths, inodes)
        if differs is not None:
            why = why or differs
            continue
        for p, n in sorted(paths.items()):
            differs = file_differs(model, n, got[p])
            if differs is not None:
                raise Failure("%s: %s" % (p, differs))
        return
    raise Failure(why)


# --- scenarios ---

class Bench:
    """Where scenarios are carried out."""

    def __init__(self, args):
        self.args = args
        self.image = os.path.join(args.dir, "image")
        self.copy = os.path.join(args.dir, "copy")
        self.top = os.path.join(args.dir, "top")

    def make(self, nodesize, no_holes):
        for p in (self.image, self.copy):
            if os.path.exists(p):
                os.unlink(p)
        make_pool(self.image, 512 << 20, "-n", str(nodesize), "-O",
                  "no-holes" if no_holes else "^no-holes")

    def base(self, s, model, linux):
        for words in s.base:
            model.op(words)
            linux.op(words)
        model.op(["sync"])
        linux.op_sync()

    def drive(self, image, ops):
        out = run(self.args.drive, image,
                  stdin="".join(" ".join(w) + "\n" for w in ops))
        words = out.split()
        return dict(zip(words[0::2], map(int, words[1::2])))

    def has_log(self, image):
        out = run("btrfs", "inspect-internal", "dump-super", image)
        return re.search(r"^log_root\s+0$", out, re.M) is None

    def carry_out(self, s):
        model = Model()
        with Mount(self.image, self.top) as linux:
            self.base(s, model, linux)
        stats = self.drive(self.image, s.ops)
        for words in s.ops:
            model.op(words)
        if stats["became-commits"] and "made-up" in s.words or \
                "log" in s.words and (stats["became-commits"] or
                                      not self.has_log(self.image)):
            raise Failure("not served by the log: %r" % stats)
        if "commit" in s.words and not stats["became-commits"]:
            raise Failure("served by the log: %r" % stats)
        if self.args.keep:
            shutil.copy(self.image, os.path.join(self.args.dir, "kept"))
        run("cp", "--sparse=always", self.image, self.copy)
        self.replayed(model, self.image)
        try:
            self.drive(self.copy, [])
            self.replayed(model, self.copy)
        except Failure as e:
            raise Failure("our own replay: %s" % e)

    def replayed(self, model, image):
        with Mount(image, self.top):
            judge(model, look(self.top))
        check(image)
        with Mount(image, self.top):
            remove_all(self.top)
        check(image)


# --- random scenarios ---

def invent(seed, length):
    """Operations that are possible, from a seed."""
    rnd = random.Random(seed)
    model = Model()
    s = Scenario("random-%d" % seed, ["made-up"])
    count = 0

    def pick(kind, ok=lambda p: True):
        v = [p for p, n in sorted(model.paths().items())
             if model.inodes[n].kind in kind and ok(p)]
        return rnd.choice(v) if v else None

    def new_name():
        d = pick("d") if rnd.random() < 0.6 else None
        name = rnd.choice("abcdefghijklmnop")
        return d + "/" + name if d else name

    def pick_clone(a, b):
        n = len(model.get(a).data) // 4096
        if n == 0:
            return None
        start = rnd.randrange(n)
        length = rnd.randrange(1, n - start + 1)
        to = rnd.randrange(12)
        if model.find(a) == model.find(b) and to < start + length and \
                start < to + length:
            return None
        return ["clone", a, str(start * 4096), str(length * 4096), b,
                str(to * 4096)]

    def possible(words):
        kind = words[0]
        paths = model.paths()
        if kind in ("create", "mkdir"):
            return words[1] not in paths
        if kind in ("symlink", "link"):
            return words[2] not in paths
        if kind == "unlink":
            return not model.get(words[1]).entries
        if kind in ("rename", "exchange"):
            a, b = words[1], words[2]
            if a == b or b.startswith(a + "/") or a.startswith(b + "/"):
                return False
            if b not in paths:
                return kind == "rename"
            if paths[a] == paths[b]:
                return False
            x, y = model.get(a), model.get(b)
            return kind == "exchange" or (
                (x.kind == "d") == (y.kind == "d") and not y.entries)
        return True

    def one():
        nonlocal count
        count += 1
        f, any_, d = pick("f"), pick("fdl"), pick("d")
        c = rnd.randrange(100)
        if c < 18:
            return ["create", new_name()]
        if c < 26:
            return ["mkdir", new_name()]
        if c < 29:
            return ["symlink", "to%d" % count, new_name()]
        if c < 36:
            return f and ["link", f, new_name()]
        if c < 48:
            return any_ and ["unlink", any_]
        if c < 66:
            return any_ and ["rename", any_, rnd.choice(
                [new_name(), pick("fdl")])]
        if c < 71:
            return any_ and ["exchange", any_, pick("fdl")]
        if c < 75:
            return (f or d) and ["setx", f or d, "user.%d" % rnd.randrange(3),
                                 "v%d" % count]
        if c < 77:
            return f and ["chmod", f, rnd.choice(["600", "640", "700"])]
        if c < 92:
            return f and ["write", f, str(rnd.randrange(40) * 1024),
                          str(rnd.randrange(1, 40) * 512), str(count)]
        if c < 95:
            return f and ["truncate", f, str(rnd.randrange(50000))]
        if c < 96:
            g = new_name()
            return f and g not in model.paths() and ["reflink", f, g]
        if c < 97:
            return f and pick_clone(f, pick("f"))
        if c < 98:
            return f and len(model.get(f).data) > 20000 and \
                ["punch", f, "4096", "8192"]
        return f and ["writeout", f]

    def some(n, ops):
        while n > 0:
            words = one()
            if not words or not possible(words):
                continue
            model.op(words)
            ops.append(words)
            n -= 1

    some(rnd.randrange(5, 25), s.base)
    model.op(["sync"])
    for _ in range(rnd.randrange(1, 7)):
        some(rnd.randrange(1, length), s.ops)
        p = pick("f" if rnd.random() < 0.5 else "fd")
        if p:
            model.op(["fsync", p])
            s.ops.append(["fsync", p])
    if rnd.random() < 0.3:
        some(rnd.randrange(1, length), s.ops)
    return s


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--drive", required=True)
    a.add_argument("--dir", required=True)
    a.add_argument("--nodesize", type=int, default=16384)
    a.add_argument("--holes", action="store_true",
                   help="without the feature no-holes")
    a.add_argument("--only", default="", help="names that match")
    a.add_argument("--random", nargs=2, type=int, metavar=("SEED", "COUNT"))
    a.add_argument("--length", type=int, default=8)
    a.add_argument("--keep", action="store_true",
                   help="keep the image as it was at the cut")
    a.add_argument("--print", action="store_true")
    a.add_argument("scenarios", nargs="?")
    args = a.parse_args()
    if args.random:
        scenarios = [invent(args.random[0] + i, args.length)
                     for i in range(args.random[1])]
    else:
        scenarios = parse(args.scenarios)
    bench = Bench(args)
    for s in scenarios:
        if not re.search(args.only, s.name) or \
                ("no-holes" if args.holes else "holes") in s.words:
            continue
        try:
            bench.make(args.nodesize, not args.holes)
            bench.carry_out(s)
            print("ok - " + s.name)
        except (Failure, OSError, subprocess.SubprocessError) as e:
            print("not ok - " + s.name)
            print("# " + str(e).replace("\n", "\n# "))
            if args.random or args.print:
                for what, ops in (("base", s.base), ("ops", s.ops)):
                    print("# %s: %s" % (what, "; ".join(map(" ".join, ops))))
        sys.stdout.flush()


main()
