#!/usr/bin/python3
"""What fsync of new names costs, ours through the engine's API beside Linux.

1. Empty files in one directory, with an fsync of the directory after every
   100 of them: the time of the fsyncs and how it grows with the directory.
   A million files is what was published of Linux (350 s before its fix, 92 s
   after it).
2. Four threads that each make a file and fsync it, over and over.
3. A 4K random write and a FLUSH, over and over, from within the process:
   what the log writes for one (flush.py has the same through servers).

All on a loop device with direct I/O over a file in the same directory, which
has all its blocks; btrfs is mounted with `ssd`, as a disk that claims to be
rotational makes it wait.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

from servers import GIB, Loop, run


class Place:
    """A pool of ours, or a mounted filesystem, on a fresh device."""

    def __init__(self, bench, kind):
        self.bench, self.kind = bench, kind
        self.mnt = os.path.join(bench.dir, 'mnt')
        os.makedirs(self.mnt, exist_ok=True)
        self.loop = Loop(os.path.join(bench.dir, 'disk.img'), bench.size,
                         True)
        dev = self.loop.dev
        try:
            if kind == 'ours':
                run(os.path.join(bench.build, 'server/cli/btrnbd'), '-d', dev,
                    'mkfs', '--force')
            elif kind == 'btrfs':
                run('mkfs.btrfs', '-q', '-f', dev)
                run('mount', '-o', 'ssd', dev, self.mnt)
            else:
                run('mkfs.ext4', '-q', '-F', '-E', 'lazy_itable_init=0,'
                    'lazy_journal_init=0', dev)
                run('mount', dev, self.mnt)
        except BaseException:
            self.loop.close()
            raise

    def load(self, what, *numbers):
        ours = self.kind == 'ours'
        before = self.loop.writes(), self.loop.written(), self.loop.flushes()
        out = json.loads(run(
            os.path.join(self.bench.build, 'tests/bench/fsync-load'), what,
            'ours' if ours else 'linux', self.loop.dev if ours else self.mnt,
            *map(str, numbers)))
        after = self.loop.writes(), self.loop.written(), self.loop.flushes()
        out['device'] = [b - a for a, b in zip(before, after)]
        return out

    def close(self):
        if self.kind != 'ours':
            subprocess.run(['umount', self.mnt])
        self.loop.close()


class Bench:
    def __init__(self, opts, directory):
        self.dir, self.build = directory, os.path.abspath(opts.build)
        self.size = opts.size * GIB

    def run(self, kind, *args):
        print(f'{kind}: {args[0]}', file=sys.stderr)
        place = Place(self, kind)
        try:
            return place.load(*args)
        finally:
            place.close()


def counters(m, n):
    print(f'  per fsync: {m["log_blocks"] / n:.2f} log blocks, '
          f'{m["syncs"] / n:.2f} superblocks; {m["became_commits"]} became '
          f'commits; {m["commits"]} commits of {m["commit_ms"]:.0f} ms, '
          f'{m["commit_max_ms"]:.0f} ms at most')


def directory(bench, opts):
    results = {kind: bench.run(kind, 'dir', opts.files, opts.every)
               for kind in opts.peers.split(',') if kind != 'ext4'}
    n = opts.files // opts.every
    print(f'\n{opts.files:,} empty files in one directory, fsync of it every '
          f'{opts.every}: {n:,} fsyncs')
    print(f'{"":8}{"total s":>9}{"mean ms":>9}{"p50":>8}{"p99":>8}'
          f'{"first":>8}{"last":>8}{"last/first":>11}{"writes":>8}'
          f'{"KiB":>8}{"barriers":>9}')
    for kind, m in results.items():
        writes, written, flushes = m['device']
        print(f'{kind:8}{m["total_ms"] / 1e3:9.1f}{m["mean"]:9.2f}'
              f'{m["p50"]:8.2f}{m["p99"]:8.2f}{m["first"]:8.2f}'
              f'{m["last"]:8.2f}{m["last"] / m["first"]:11.2f}'
              f'{writes / n:8.1f}{written / n / 1024:8.0f}{flushes / n:9.2f}')
    print(f'  first, last: mean of so many fsyncs: '
          f'{next(iter(results.values()))["first_n"]:,}')
    if 'ours' in results:
        counters(results['ours'], n)
    if 'ours' in results and 'btrfs' in results:
        a, b = results['ours'], results['btrfs']
        print(f'  btrfs / ours: total {b["total_ms"] / a["total_ms"]:.2f}, '
              f'mean {b["mean"] / a["mean"]:.2f}, p99 '
              f'{b["p99"] / a["p99"]:.2f}')


def files(bench, opts):
    results = {kind: bench.run(kind, 'files', opts.threads, opts.seconds)
               for kind in opts.peers.split(',')}
    print(f'\n{opts.threads} threads that make a file and fsync it')
    for kind, m in results.items():
        n = m['rate'] * opts.seconds
        writes, written, flushes = m['device']
        print(f'{kind:8}{m["rate"]:10,.0f} files/s{writes / n:8.1f} writes'
              f'{written / n / 1024:8.1f} KiB{flushes / n:8.2f} barriers each')
    if 'ours' in results:
        counters(results['ours'], results['ours']['flushes'])
        for kind, m in results.items():
            if kind != 'ours':
                print(f'  ours / {kind}: '
                      f'{results["ours"]["rate"] / m["rate"]:.2f}')


def flushes(bench, opts):
    results = {kind: bench.run(kind, 'flush', 128, opts.flushes)
               for kind in opts.peers.split(',')}
    print(f'\n{opts.flushes:,} times 4K at random in 128 MiB, and a FLUSH')
    for kind, m in results.items():
        print(f'{kind:8}{m["p50"]:8.3f} ms p50{m["p99"]:8.3f} p99'
              f'{m["mean"]:8.3f} mean')
    if 'ours' in results:
        m = results['ours']
        print(f'  log blocks per FLUSH: {m["early"]:.2f} early in a '
              f'transaction, {m["log_blocks"] / m["flushes"]:.2f} in all '
              f'(each is written twice with DUP)')
        counters(m, m['flushes'])


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--build', default='.', help='the build directory')
    p.add_argument('--dir', help='where the images go')
    p.add_argument('--files', type=int, default=100000)
    p.add_argument('--every', type=int, default=100)
    p.add_argument('--threads', type=int, default=4)
    p.add_argument('--seconds', type=int, default=5)
    p.add_argument('--size', type=int, default=4, help='GiB of the device')
    p.add_argument('--peers', default='ours,btrfs,ext4')
    p.add_argument('--flushes', type=int, default=3000)
    p.add_argument('--only', choices=('dir', 'files', 'flush'))
    opts = p.parse_args()
    if os.geteuid() != 0:
        sys.exit('bench: needs root for loop devices and mounts')
    where = tempfile.mkdtemp(prefix='bench.',
                             dir=os.path.abspath(opts.dir or opts.build))
    bench = Bench(opts, where)
    try:
        for name, fn in (('dir', directory), ('files', files),
                         ('flush', flushes)):
            if opts.only in (None, name):
                fn(bench, opts)
    finally:
        shutil.rmtree(where, ignore_errors=True)


if __name__ == '__main__':
    main()
