#!/usr/bin/python3
"""How an image rots: space and sequential reads after random overwrites.

A volume with checksums is filled in order, then overwritten three times over
by 4K random writes with a flush after every 1,000, while snapshots roll: one
is taken ten times per pass over the image, and the oldest goes when there are
more than ten.  Beside ours the nbdkit file plugin on a file of a kernel btrfs
(mounted with ssd, snapshots of the subvolume that holds it).

`held` is what extents of the snapshots take that the image does not have any
more, `live` the image's size.  Ours is measured at once, and again after quiet
time in which dead space is given back; and both once more when the snapshots
are gone.
"""

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import nbd

from servers import GIB, MIB, Kernel, Ours, run

BLOCK = 4096
FLUSH_EVERY = 1000
PASSES = 3
PER_PASS = 10
KEEP = 10
WINDOW = 32


class RotOurs(Ours):
    def __init__(self, bench):
        super().__init__(bench, 'ours', False, False)
        self.control = os.path.join(bench.dir, 'control.sock')
        self.args.append(f'control={self.control}')
        self.btrnbd = os.path.join(bench.build, 'server/cli/btrnbd')

    def call(self, *args):
        return run(self.btrnbd, args[0], '-s', self.control, *args[1:])

    def snapshot(self, tag):
        self.call('snapshot', 'disk', tag)

    def remove(self, tag):
        self.call('rm', f'disk@{tag}')

    def settle(self, seconds):
        """Wait until nothing is left to be regrouped, and commit."""
        end = time.time() + seconds
        while time.time() < end:
            time.sleep(1)
            s = json.loads(self.call('stat', '--json'))['pool']
            if s['regroup_noted_bytes'] == 0:
                break
        self.sync()

    def sync(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.control)
            s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"pool.sync"}\n')
            s.recv(4096)

    def used(self):
        return json.loads(self.call('df', '--json'))['data']['used']

    def dead(self):
        return json.loads(self.call('df', '-v', '--json'))['files']['dead']


class RotKernel(Kernel):
    """The file lives in a subvolume, so that there can be snapshots."""

    def __init__(self, bench):
        super().__init__(bench, False)
        self.sub = os.path.join(self.mnt, 'sub')
        run('btrfs', '-q', 'subvolume', 'create', self.sub)
        os.unlink(os.path.join(self.mnt, 'disk'))
        open(os.path.join(self.sub, 'disk'), 'w').close()
        os.truncate(os.path.join(self.sub, 'disk'), bench.disk_size)
        self.name = 'kernel'
        self.args = ['file', f'dir={self.sub}']

    def snapshot(self, tag):
        run('btrfs', '-q', 'subvolume', 'snapshot', '-r', self.sub,
            os.path.join(self.mnt, tag))

    def remove(self, tag):
        run('btrfs', '-q', 'subvolume', 'delete', os.path.join(self.mnt, tag))

    def settle(self, seconds):
        run('btrfs', '-q', 'filesystem', 'sync', self.mnt)
        subprocess.run(['timeout', str(max(seconds, 120)), 'btrfs', '-q',
                        'subvolume', 'sync', self.mnt])
        run('btrfs', '-q', 'filesystem', 'sync', self.mnt)

    def used(self):
        run('btrfs', '-q', 'filesystem', 'sync', self.mnt)
        out = run('btrfs', 'filesystem', 'df', '--raw', self.mnt)
        for line in out.splitlines():
            if line.startswith('Data'):
                return int(line.rsplit('used=', 1)[1])
        return 0


class Load:
    """Asynchronous writes of one client."""

    def __init__(self, server):
        self.h = server.connect()
        self.pending = []

    def write(self, buf, offset):
        if len(self.pending) >= WINDOW:
            self.wait(WINDOW // 2)
        self.pending.append(self.h.aio_pwrite(buf, offset))

    def wait(self, left=0):
        while len(self.pending) > left:
            while not self.h.aio_command_completed(self.pending[0]):
                self.h.poll(-1)
            self.pending.pop(0)

    def flush(self):
        self.wait()
        self.h.flush()

    def close(self):
        self.flush()
        self.h.shutdown()


def fill(server, size):
    load = Load(server)
    for offset in range(0, size, MIB):
        load.write(nbd.Buffer.from_bytearray(
            bytearray(random.randbytes(MIB))), offset)
    load.close()


def overwrite(server, size):
    """Returns the snapshots that are left, and writes per second."""
    blocks = size // BLOCK
    load, tags, began = Load(server), [], time.time()
    every = blocks // PER_PASS
    pool = [nbd.Buffer.from_bytearray(bytearray(random.randbytes(BLOCK)))
            for _ in range(256)]
    for n in range(1, PASSES * blocks + 1):
        load.write(pool[n % 256], random.randrange(blocks) * BLOCK)
        if n % FLUSH_EVERY == 0:
            load.flush()
        if n % every == 0:
            load.flush()
            tags.append(f's{n // every}')
            server.snapshot(tags[-1])
            if len(tags) > KEEP:
                server.remove(tags.pop(0))
    load.close()
    return tags, PASSES * blocks / (time.time() - began)


def read_all(server, size):
    """MiB per second, cold, in order."""
    server.cool()
    h, pending, began = server.connect(), [], time.time()
    for offset in range(0, size, MIB):
        if len(pending) >= 8:
            cookie = pending.pop(0)
            while not h.aio_command_completed(cookie):
                h.poll(-1)
        pending.append(h.aio_pread(nbd.Buffer(MIB), offset))
    for cookie in pending:
        while not h.aio_command_completed(cookie):
            h.poll(-1)
    h.shutdown()
    return size / MIB / (time.time() - began)


def rot(server, size, quiet):
    m = {}
    server.start()
    fill(server, size)
    server.settle(quiet)
    m['filled'] = server.used()
    m['fresh'] = read_all(server, size)
    tags, m['writes'] = overwrite(server, size)
    m['at once'] = server.used()
    m['read at once'] = read_all(server, size)
    server.settle(quiet)
    m['quiet'] = server.used()
    m['read'] = read_all(server, size)
    if hasattr(server, 'dead'):
        m['dead'] = server.dead()
    for tag in tags:
        server.remove(tag)
    server.settle(quiet)
    m['alone'] = server.used()
    # What one more pass leaves when it can be cleared up at once.
    load = Load(server)
    buf = nbd.Buffer.from_bytearray(bytearray(random.randbytes(BLOCK)))
    for _ in range(size // BLOCK // 4):
        load.write(buf, random.randrange(size // BLOCK) * BLOCK)
    load.close()
    server.settle(quiet)
    m['alone, written again'] = server.used()
    m['read alone'] = read_all(server, size)
    return m


def expected_held(size):
    """Sectors that the snapshots and the image have, each once: what no
    extent layout can do without.  Blocks that are not hit between two
    snapshots are shared by them."""
    hit = 1 - pow(2.718281828, -1 / PER_PASS)
    return size * (1 + (KEEP - 1) * hit)


def report(results, size):
    rows = [('space used, MiB', None),
            ('  filled', 'filled'), ('  overwritten 3x', 'at once'),
            ('  after quiet time', 'quiet'),
            ('  snapshots gone', 'alone'),
            ('  a quarter written again', 'alone, written again'),
            ('sequential read, MiB/s', None),
            ('  fresh', 'fresh'), ('  overwritten', 'read at once'),
            ('  after quiet time', 'read'),
            ('  snapshots gone', 'read alone'),
            ('4K writes/s, flushes and snapshots included', 'writes')]
    print(f'{"":44}' + ''.join(f'{n:>12}' for n in results))
    for text, key in rows:
        print(f'{text:44}' + ''.join(
            '' if key is None else
            f'{m[key] / (1 if "read" in key or key in ("fresh", "writes") else MIB):12,.0f}'
            for m in results.values()))
    need = expected_held(size)
    print(f'\nlive {size / MIB:,.0f} MiB; sectors that the image and its '
          f'snapshots hold, each once: about {need / MIB:,.0f} MiB')
    for n, m in results.items():
        print(f'{n:8} used / these sectors {m["quiet"] / need:5.2f}   '
              f'alone / live {m["alone"] / size:5.2f}   again / live '
              f'{m["alone, written again"] / size:5.2f}   read / fresh '
              f'{m["read"] / m["fresh"]:5.2f}, alone '
              f'{m["read alone"] / m["fresh"]:5.2f}'
              + (f'   dead {m["dead"] / MIB:,.0f} MiB' if 'dead' in m
                 else ''))


class Bench:
    def __init__(self, opts, directory):
        self.build, self.dir = os.path.abspath(opts.build), directory
        self.disk_size = opts.size * MIB
        self.pool_size = 6 * self.disk_size + GIB
        self.cache, self.written = '256M', False


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--build', default='.', help='the build directory')
    p.add_argument('--dir', help='where the images go')
    p.add_argument('--size', type=int, default=4096, help='MiB of the image')
    p.add_argument('--quiet', type=int, default=600,
                   help='seconds of quiet time at most')
    p.add_argument('--servers', default='ours,kernel')
    opts = p.parse_args()
    if os.geteuid() != 0:
        sys.exit('rot: needs root for loop devices and mounts')
    directory = tempfile.mkdtemp(prefix='bench.',
                                 dir=os.path.abspath(opts.dir or opts.build))
    bench, results = Bench(opts, directory), {}
    try:
        for name in opts.servers.split(','):
            random.seed(1)
            server = {'ours': RotOurs, 'kernel': RotKernel}[name](bench)
            try:
                results[name] = rot(server, bench.disk_size, opts.quiet)
            finally:
                server.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report(results, bench.disk_size)


if __name__ == '__main__':
    main()
