#!/usr/bin/python3
"""What a FLUSH costs: one 4K random write, then FLUSH, one after the other.

Peers are the nbdkit file plugin on a kernel btrfs, with and without copy on
write, and on the device itself (the least that anything behind NBD can take),
and pwrite + fdatasync on the device.  All are on a loop device with direct I/O
over a file in the same directory, one at a time, which has all its blocks, as
a disk has.  Writes, bytes and device flushes are counted at the loop device.

What is compared is a write with its FLUSH: some servers write when they are
told to, others when the FLUSH comes.  The time of the FLUSH alone stands
beside it.

The disk is written once before it is measured, and committed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from servers import GIB, MIB, Kernel, Loop, Ours, Server, disk_names


class Raw:
    """The device, without anything between."""

    name = 'raw'

    def __init__(self, bench, disks):
        self.loop = Loop(os.path.join(bench.dir, 'raw.img'),
                         disks * bench.disk_size, bench.written)

    def start(self):
        pass

    def close(self):
        self.loop.close()


class Device(Server):
    """The device behind the file plugin; disks are parts of it."""

    def __init__(self, bench, disks):
        self.loop = Loop(os.path.join(bench.dir, 'device.img'),
                         disks * bench.disk_size, bench.written)
        super().__init__(bench, 'nbd device', '',
                         ['file', self.loop.dev, 'cache=none'])

    def uri(self, export=None):
        return super().uri('')

    def close(self):
        super().close()
        self.loop.close()


class Bench:
    cache = '256M'
    written = True

    def __init__(self, opts, directory):
        self.opts, self.dir = opts, directory
        self.build = os.path.abspath(opts.build)
        self.disk_size = opts.span * MIB
        self.pool_size = 2 * GIB

    def servers(self, disks):
        def ours(name, daemon, nocow):
            return name, lambda: Ours(self, name, daemon, nocow, disks)

        return [('raw', lambda: Raw(self, disks)),
                ('nbd device', lambda: Device(self, disks)),
                ours('nbdkit', False, False),
                ours('btrnbdd', True, False),
                ('kernel cow', lambda: Kernel(self, False, disks)),
                ours('nbdkit nocow', False, True),
                ours('btrnbdd nocow', True, True),
                ('kernel nocow', lambda: Kernel(self, True, disks))]

    def fio(self, server, disks, rest):
        """One fio job for each disk; what the jobs report."""
        out = os.path.join(self.dir, 'fio.json')
        args = ['fio', '--group_reporting=0', '--randrepeat=1',
                '--norandommap', '--refill_buffers', f'--output={out}',
                '--output-format=json', f'--size={self.disk_size}']
        for n, disk in enumerate(disk_names(disks)):
            args += [f'--name={disk}']
            if isinstance(server, Raw):
                args += ['--ioengine=psync', '--direct=1',
                         f'--filename={server.loop.dev}']
            else:
                args += ['--ioengine=nbd', f'--uri={server.uri(disk)}']
            if isinstance(server, (Raw, Device)):
                args += [f'--offset={n * self.disk_size}']
            args += rest
        subprocess.run(args, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, cwd=self.dir)
        with open(out) as f:
            text = f.read()
        return json.loads(text[text.index('{'):])['jobs']

    def measure(self, server, disks):
        self.fio(server, disks, ['--rw=write', '--bs=1M', '--end_fsync=1'])
        loop = server.loop
        before = loop.writes(), loop.written(), loop.flushes()
        sync = '--fdatasync=1' if isinstance(server, Raw) else '--fsync=1'
        jobs = self.fio(server, disks, [
            '--rw=randwrite', '--bs=4096', '--iodepth=1', sync,
            '--time_based', f'--runtime={self.opts.seconds}'])
        writes, written, flushes = (
            b - a for a, b in zip(before, (loop.writes(), loop.written(),
                                           loop.flushes())))
        n = sum(j['write']['total_ios'] for j in jobs)

        def us(part, percent):
            return max(j[part][key]['percentile'][percent] for j in jobs
                       for key in ('lat_ns', 'clat_ns')
                       if 'percentile' in j[part].get(key, {})) / 1e3

        return {
            'rate': sum(j['write']['iops'] for j in jobs),
            'p50': us('write', '50.000000') + us('sync', '50.000000'),
            'flush': us('sync', '50.000000'),
            'p99': us('sync', '99.000000'),
            'writes': writes / n,
            'kib': written / n / 1024,
            'flushes': flushes / n}


def table(disks, results):
    print(f'\n4K random write + FLUSH, QD1, {disks} '
          f'{"disks, a connection each" if disks > 1 else "disk"}')
    print(f'{"":16}{"":12}{"p50 us":>9}{"p50 us":>9}{"p99 us":>9}'
          f'{"per FLUSH:":>17}')
    print(f'{"":16}{"per second":>12}{"both":>9}{"FLUSH":>9}{"FLUSH":>9}'
          f'{"writes":>9}{"KiB":>8}{"barriers":>10}')
    for name, m in results.items():
        print(f'{name:16}{m["rate"]:12,.0f}{m["p50"]:9,.0f}'
              f'{m["flush"]:9,.0f}{m["p99"]:9,.0f}'
              f'{m["writes"]:9.1f}{m["kib"]:8.1f}{m["flushes"]:10.2f}')
    for ours, peer in (('nbdkit', 'kernel cow'), ('btrnbdd', 'kernel cow'),
                       ('nbdkit', 'raw'), ('btrnbdd', 'raw'),
                       ('nbdkit', 'nbd device'), ('btrnbdd', 'nbd device'),
                       ('nbdkit nocow', 'kernel nocow'),
                       ('btrnbdd nocow', 'kernel nocow'),
                       ('nbdkit nocow', 'raw'), ('btrnbdd nocow', 'raw'),
                       ('nbdkit nocow', 'nbd device'),
                       ('btrnbdd nocow', 'nbd device')):
        if ours in results and peer in results:
            a, b = results[ours], results[peer]
            print(f'  {ours + " / " + peer:30} rate {a["rate"] / b["rate"]:5.2f}'
                  f'   p50 {a["p50"] / b["p50"]:5.2f}'
                  f'   p99 {a["p99"] / b["p99"]:5.2f}')


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--build', default='.', help='the build directory')
    p.add_argument('--dir', help='where the images go')
    p.add_argument('--seconds', type=int, default=5, help='of each load')
    p.add_argument('--span', type=int, default=128, help='MiB of each disk')
    p.add_argument('--servers', default='', help='servers that match')
    opts = p.parse_args()
    if os.geteuid() != 0:
        sys.exit('bench: needs root for loop devices and mounts')

    directory = tempfile.mkdtemp(prefix='bench.',
                                 dir=os.path.abspath(opts.dir or opts.build))
    bench = Bench(opts, directory)
    try:
        for disks in 1, 8:
            results = {}
            for name, make in bench.servers(disks):
                if not re.search(opts.servers, name):
                    continue
                print(f'{name}: {disks}', file=sys.stderr)
                server = make()
                try:
                    server.start()
                    results[name] = bench.measure(server, disks)
                finally:
                    server.close()
            table(disks, results)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == '__main__':
    main()
