#!/usr/bin/python3
"""make bench: our figures beside those of peers, measured in the same run.

Ours is measured under both hosts, nbdkit and btrnbdd.  Peers are the nbdkit
memory plugin (what the protocol allows) and the nbdkit file plugin on a file
of the same size in a kernel btrfs, with and without copy on write.  Ours and
the kernel's pool are on loop devices with direct I/O, one at a time, over
files in the same directory.

Written bytes are counted at the loop device; CPU seconds are those of the
server process and, beside it, those of the whole machine without fio, since
the kernel does its work elsewhere.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from servers import GIB, MIB, Kernel, Memory, Ours, machine_cpu, proc_cpu

class Load:
    def __init__(self, name, rw, bs, depth, jobs, cold=False, span=None,
                 runtime=True, unit='ops'):
        self.name, self.rw, self.bs = name, rw, bs
        self.depth, self.jobs, self.cold = depth, jobs, cold
        self.span, self.runtime, self.unit = span, runtime, unit

    def write(self):
        return 'write' in self.rw


LOADS = [
    Load('4K random read, cached, QD1', 'randread', 4096, 1, 1,
         span=64 * MIB),
    Load('4K random read, cached, QD32', 'randread', 4096, 32, 1,
         span=64 * MIB),
    Load('4K random read, cached, QD1 x 4', 'randread', 4096, 1, 4,
         span=64 * MIB),
    Load('4K random read, cached, QD32 x 4', 'randread', 4096, 32, 4,
         span=64 * MIB),
    Load('4K random write + flush, QD32', 'randwrite', 4096, 32, 1),
    Load('4K random write + flush, QD32 x 4', 'randwrite', 4096, 32, 4),
    Load('64K random write + flush, QD32', 'randwrite', 65536, 32, 1),
    Load('1M sequential write + flush', 'write', MIB, 8, 1, runtime=False,
         unit='MiB'),
    Load('1M sequential read, cold', 'read', MIB, 8, 1, cold=True,
         runtime=False, unit='MiB'),
    Load('1M sequential read, warm', 'read', MIB, 8, 1, span=128 * MIB,
         unit='MiB'),
    Load('4K random read, cold, QD32', 'randread', 4096, 32, 1, cold=True),
]


class Bench:
    def __init__(self, opts, directory):
        self.opts, self.dir = opts, directory
        self.build = os.path.abspath(opts.build)
        self.disk_size = opts.span
        self.pool_size = 4 * opts.span + GIB
        self.cache = '256M'
        self.written = False

    def fill(self, server):
        """Write the whole disk once, with bytes that do not compress."""
        h = server.connect()
        chunk = os.urandom(MIB)
        for at in range(0, self.disk_size, MIB):
            h.pwrite(chunk, at)
        h.flush()
        h.shutdown()

    def warm(self, server, span):
        h = server.connect()
        for at in range(0, span, MIB):
            h.pread(MIB, at)
        h.shutdown()

    def fio(self, server, load):
        span = load.span or self.disk_size
        out = os.path.join(self.dir, 'fio.json')
        args = ['fio', '--name=bench', '--ioengine=nbd',
                f'--uri={server.uri()}', f'--rw={load.rw}',
                f'--bs={load.bs}', f'--iodepth={load.depth}',
                f'--numjobs={load.jobs}', f'--size={span}',
                '--group_reporting', '--randrepeat=1', '--norandommap',
                f'--output={out}', '--output-format=json',
                '--refill_buffers']
        if load.runtime:
            args += ['--time_based', f'--runtime={self.opts.seconds}']
        subprocess.run(args, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, cwd=self.dir)
        with open(out) as f:
            text = f.read()
        job = json.loads(text[text.index('{'):])['jobs'][0]
        return job

    def measure(self, server, load):
        if load.cold:
            server.cool()
        elif not load.write():
            self.warm(server, load.span)
        pid = server.process.pid
        cpu0, all0, written0 = (proc_cpu(pid), machine_cpu(),
                                server.written())
        job = self.fio(server, load)
        side = job['write' if load.write() else 'read']
        seconds = side['runtime'] / 1000
        if load.write():
            h = server.connect()
            start = time.monotonic()
            h.flush()
            seconds += time.monotonic() - start
            h.shutdown()
        cpu1, all1, written1 = (proc_cpu(pid), machine_cpu(),
                                server.written())
        fio_cpu = (job['usr_cpu'] + job['sys_cpu']) / 100 * \
            job['job_runtime'] / 1000
        ops, size = side['total_ios'], side['io_bytes']
        return {
            'rate': (ops if load.unit == 'ops' else size / MIB) / seconds,
            'p99_us': side['clat_ns'].get('percentile', {}).get(
                '99.000000', 0) / 1000,
            'cpu_100k': (cpu1 - cpu0) / ops * 1e5,
            'all_100k': max(0, all1 - all0 - fio_cpu) / ops * 1e5,
            'cpu_gib': (cpu1 - cpu0) / size * GIB,
            'all_gib': max(0, all1 - all0 - fio_cpu) / size * GIB,
            'per_byte': (written1 - written0) / size if load.write()
            else None,
        }

    def servers(self):
        def ours(name, daemon, nocow):
            return name, lambda: Ours(self, name, daemon, nocow)

        return [ours('nbdkit', False, False),
                ours('btrnbdd', True, False),
                ours('nbdkit nocow', False, True),
                ours('btrnbdd nocow', True, True),
                ('memory', lambda: Memory(self)),
                ('kernel cow', lambda: Kernel(self, False)),
                ('kernel nocow', lambda: Kernel(self, True))]


RATIOS = [('nbdkit', 'kernel cow'), ('btrnbdd', 'kernel cow'),
          ('nbdkit nocow', 'kernel nocow'), ('btrnbdd nocow', 'kernel nocow'),
          ('nbdkit', 'memory'), ('btrnbdd', 'memory')]


def table(results, loads):
    names = list(results)
    print(f'\n{"operations or MiB per second":34}'
          + ''.join(f'{n:>14}' for n in names))
    for load in loads:
        print(f'{load.name:34}' + ''.join(
            f'{results[n][load.name]["rate"]:14,.0f}' for n in names))

    pairs = [(a, b) for a, b in RATIOS if a in results and b in results]
    if pairs:
        print(f'\n{"ours as a multiple of the peer":34}' + ''.join(
            f'{a + " /":>15}' for a, b in pairs))
        print(f'{"":34}' + ''.join(f'{b:>15}' for a, b in pairs))
        for load in loads:
            def ratio(a, b):
                return (results[a][load.name]['rate']
                        / results[b][load.name]['rate'])
            print(f'{load.name:34}' + ''.join(
                f'{ratio(a, b):14.2f}x' for a, b in pairs))

    print('\nCPU seconds of the server (of the machine without fio) per '
          '100k operations; per GiB for 1M;')
    print('bytes written to the device per byte; 99th percentile of '
          'latency in us')
    for load in loads:
        print(f'{load.name}')
        for n in names:
            m = results[n].get(load.name)
            if not m:
                continue
            kind = '100k' if load.unit == 'ops' else 'gib'
            per_byte = '' if m['per_byte'] is None or n == 'memory' \
                else f'  {m["per_byte"]:5.2f} B/B'
            print(f'  {n:14} {m["cpu_" + kind]:8.2f} '
                  f'({m["all_" + kind]:.2f}) s'
                  f'  p99 {m["p99_us"]:9,.0f} us{per_byte}')


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--build', default='.', help='the build directory')
    p.add_argument('--dir', help='where the images go')
    p.add_argument('--seconds', type=int, default=4, help='of each load')
    p.add_argument('--span', type=int, default=1024,
                   help='MiB of the disk that is worked on')
    p.add_argument('--only', default='', help='loads that match')
    p.add_argument('--servers', default='', help='servers that match')
    opts = p.parse_args()
    opts.span *= MIB
    if os.geteuid() != 0:
        sys.exit('bench: needs root for loop devices and mounts')

    directory = tempfile.mkdtemp(prefix='bench.',
                                 dir=os.path.abspath(opts.dir or opts.build))
    bench = Bench(opts, directory)
    loads = [x for x in LOADS if re.search(opts.only, x.name)]
    results, memory = {}, {}
    try:
        for name, make in bench.servers():
            if not re.search(opts.servers, name):
                continue
            server = make()
            try:
                server.start()
                bench.fill(server)
                results[server.name] = {}
                for load in loads:
                    print(f'{server.name}: {load.name}', file=sys.stderr)
                    results[server.name][load.name] = \
                        bench.measure(server, load)
            finally:
                server.close()
                if server.rss:
                    memory[server.name] = server.rss
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    table(results, loads)
    print('\npeak RSS: ' + ', '.join(f'{n} {v / MIB:.0f} MiB'
                                     for n, v in memory.items())
          + f' (cache-size={bench.cache})')


if __name__ == '__main__':
    main()
