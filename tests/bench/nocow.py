#!/usr/bin/python3
"""Writes in place and snapshots: a preallocated nocow image, 4K random write.

Three rounds of fio, QD32, eight jobs; between the first and the second a
snapshot is taken, so that the second copies what it meets for the first time,
and the third writes in place again.  Ours with the early test and the kept
verdicts off and on, and the kernel's, through the nbdkit file plugin on a
kernel btrfs; all on loop devices with direct I/O.  Each round ends with a
flush, which counts.

Beside the rates: searches of the extent tree per 1,000 writes.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '../lib'))
from control import Control  # noqa: E402
from servers import GIB, MIB, Kernel, Ours, run  # noqa: E402

ROUNDS = 3
WANTED = (1.2, 1.5, 1.5)


class OurDisk(Ours):
    def __init__(self, bench, name, daemon, flag):
        self.flag = flag
        super().__init__(bench, name, daemon, True)
        self.control_path = self.sock + '.ctl'
        if not daemon:
            self.args.append(f'control={self.control_path}')
        self.control = None

    def command(self):
        host = super().command()
        more = [] if not self.flag else ['-D', f'btrfs.nocow={self.flag}']
        if self.daemon:
            more += ['--control', self.control_path]
        return host[:1] + more + host[1:]

    def start(self):
        super().start()
        self.control = Control(self.control_path, timeout=120)

    def preallocate(self, size):
        h = self.connect()
        for at in range(0, size, 16 * MIB):
            h.zero(16 * MIB, at, 2)     # NO_HOLE
        h.flush()
        h.shutdown()

    def snapshot(self):
        self.control.call('volume.snapshot', names=['disk'], tag='a')

    def searches(self):
        return int(self.control.call('pool.stats')['data_extent_searches'])


class KernelDisk(Kernel):
    def preallocate(self, size):
        run('fallocate', '-l', str(size), os.path.join(self.mnt, 'disk'))
        run('btrfs', 'filesystem', 'sync', self.mnt)

    def snapshot(self):
        run('btrfs', 'subvolume', 'snapshot', '-r', self.mnt,
            os.path.join(self.mnt, 'a'))

    def searches(self):
        return None


class Bench:
    cache = '256M'
    written = True

    def __init__(self, opts, directory):
        self.opts, self.dir = opts, directory
        self.build = os.path.abspath(opts.build)
        self.disk_size = opts.span * MIB
        self.pool_size = 3 * self.disk_size + GIB

    def servers(self):
        def ours(name, daemon, flag):
            return lambda: OurDisk(self, name, daemon, flag)

        return [ours('nbdkit neither', False, 3),
                ours('nbdkit early', False, 2),
                ours('nbdkit kept', False, 1),
                ours('nbdkit', False, 0),
                ours('btrnbdd', True, 0),
                lambda: KernelDisk(self, True)]

    def fio(self, server):
        out = os.path.join(self.dir, 'fio.json')
        subprocess.run(
            ['fio', '--name=nocow', '--ioengine=nbd',
             f'--uri={server.uri()}', '--rw=randwrite', '--bs=4096',
             '--iodepth=32', '--numjobs=8', f'--size={self.disk_size}',
             '--group_reporting', '--norandommap', '--time_based',
             f'--runtime={self.opts.seconds}', '--refill_buffers',
             f'--output={out}', '--output-format=json'],
            check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd=self.dir)
        with open(out) as f:
            text = f.read()
        return json.loads(text[text.index('{'):])['jobs'][0]['write']

    def round(self, server):
        before = server.searches()
        side = self.fio(server)
        h = server.connect()
        start = time.monotonic()
        h.flush()
        seconds = side['runtime'] / 1000 + time.monotonic() - start
        h.shutdown()
        n = side['total_ios']
        return n / seconds, (None if before is None else
                             (server.searches() - before) * 1000 / n)

    def measure(self, server):
        server.start()
        server.preallocate(self.disk_size)
        # As a machine that has its disk attached all the time: what is known
        # of a file goes when nobody has it open.
        attached = server.connect()
        got = []
        for i in range(ROUNDS):
            if i == 1:
                server.snapshot()
            got.append(self.round(server))
        attached.shutdown()
        return got


def table(results):
    kernel = results.get('kernel nocow')
    print('4K random write, QD32 x 8, nocow: operations per second '
          '(searches of the extent tree per 1,000)')
    print(f'{"":16}' + ''.join(f'{f"round {i + 1}":>20}'
                               for i in range(ROUNDS)))
    for name, got in results.items():
        print(f'{name:16}' + ''.join(
            f'{rate:10,.0f}' + (f'  ({s:.2f})' if s is not None else '')
            .rjust(10) for rate, s in got))
    for name in ('nbdkit', 'btrnbdd'):
        if kernel and name in results:
            print(f'{name + " / kernel":16}' + ''.join(
                f'{a / b:9.2f}x (>= {w})' for (a, _), (b, _), w in
                zip(results[name], kernel, WANTED)))


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--build', default='.', help='the build directory')
    p.add_argument('--dir', help='where the images go')
    p.add_argument('--seconds', type=int, default=3, help='of each round')
    p.add_argument('--span', type=int, default=256, help='MiB of the image')
    p.add_argument('--only', default='', help='servers whose name has it')
    opts = p.parse_args()
    if os.geteuid() != 0:
        sys.exit('bench: needs root for loop devices and mounts')
    directory = tempfile.mkdtemp(prefix='bench.',
                                 dir=os.path.abspath(opts.dir or opts.build))
    bench, results = Bench(opts, directory), {}
    try:
        for make in bench.servers():
            server = make()
            try:
                if opts.only in server.name:
                    print(f'{server.name} ...', file=sys.stderr)
                    results[server.name] = bench.measure(server)
            finally:
                server.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    table(results)


if __name__ == '__main__':
    main()
