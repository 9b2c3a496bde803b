#!/usr/bin/python3
"""make bench: btrnbdd beside nbdkit as the host of the same plugin.

Each load runs on one host, then on the other, in short turns; what is
printed are the medians of the turns.  The client is nbd-load (one thread,
epoll), so the two cores belong mostly to the servers.  nbdkit runs with its
default number of threads.

Plugins: `test` is memory with the try-calls of <btrnbd/plugin-ext.h>, which
nbdkit does not know; `btrfs` is ours, on a file, everything cached; `memory`
and `file` are nbdkit's own and run through workers.
"""

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from servers import MIB, peak_rss, proc_cpu, run

SPAN = 64 * MIB


class Load:
    def __init__(self, name, least, bs=4096, conns=1, depth=1, writes=0):
        self.name, self.least, self.bs = name, least, bs
        self.conns, self.depth, self.writes = conns, depth, writes

    def args(self):
        return ['-b', str(self.bs), '-c', str(self.conns), '-q',
                str(self.depth), '-w', str(self.writes), '-s', str(SPAN)]


# The least ratio of operations that we want, where it is not 1.
READ, QD1, WRITE, LARGE = 1.6, 2.0, 1.5, 1.3
MIXED = 'mixed, 16 connections x QD4'
LOADS = [
    Load('4K read, 4 x QD16', READ, conns=4, depth=16),
    Load('4K read, QD1', QD1),
    Load('4K write, 4 x QD16', WRITE, conns=4, depth=16, writes=100),
    Load('256K read, 4 x QD4', LARGE, bs=262144, conns=4, depth=4),
    Load('256K write, 4 x QD4', LARGE, bs=262144, conns=4, depth=4,
         writes=100),
    Load(MIXED, 0, conns=16, depth=4, writes=30),
]
CPU_MOST, P99_MOST = 0.6, 0.7


class Host:
    """One server with one plugin on one kind of socket."""

    def __init__(self, bench, name, plugin, transport):
        self.name, self.turns = name, {}
        if transport == 'unix':
            path = os.path.join(bench.dir, f'{name}.sock')
            self.where = f'unix:{path}'
            if os.path.exists(path): # nbdkit leaves its own behind
                os.unlink(path)
            listen = ['-U', path] if name == 'nbdkit' else \
                ['-l', self.where]
        else:
            with socket.socket() as s:
                s.bind(('127.0.0.1', 0))
                port = s.getsockname()[1]
            self.where = str(port)
            listen = ['-i', '127.0.0.1', '-p', self.where] \
                if name == 'nbdkit' else ['-l', f'127.0.0.1:{port}']
        command = ['nbdkit', '-f', '--exit-with-parent'] \
            if name == 'nbdkit' else \
            [os.path.join(bench.build, 'btrnbdd'), '--control', 'off']
        plug = plugin.args if name == 'nbdkit' else \
            ['--plugin'] + plugin.args
        self.log = open(os.path.join(bench.dir, f'{name}.log'), 'w')
        self.process = subprocess.Popen(command + listen + plug,
                                        stdin=subprocess.DEVNULL,
                                        stderr=self.log)
        self.bench, self.export = bench, plugin.export

    def wait(self):
        for _ in range(200):
            if subprocess.run(self.command(1, ['-t', '0']),
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        with open(self.log.name) as f:
            sys.exit(f'hosts: {self.name} does not serve: {f.read()}')

    def command(self, seconds, args):
        return [self.bench.load, '-t', str(seconds)] + args + \
            [self.where, self.export]

    def turn(self, load, seconds):
        cpu = proc_cpu(self.process.pid)
        r = json.loads(run(*self.command(seconds, load.args()
                                         + self.bench.single)))
        cpu = proc_cpu(self.process.pid) - cpu
        self.turns.setdefault(load.name, []).append({
            'rate': r['ops'] / r['seconds'], 'p99': r['p99_us'],
            'cpu': cpu / r['ops'] * 1e5, 'client': r['cpu'] / r['seconds']})

    def median(self, load, what):
        return statistics.median(t[what] for t in self.turns[load.name])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Plugin:
    def __init__(self, name, args, export='', tries=False):
        self.name, self.args = name, args
        self.export, self.tries = export, tries


class Bench:
    def __init__(self, opts, directory):
        self.opts, self.dir = opts, directory
        self.build = os.path.abspath(opts.build)
        self.load = os.path.join(self.build, 'tests/bench/nbd-load')
        self.single = ['-1'] if opts.single else []
        self.missed = []

    def plugins(self):
        test = os.path.join(self.build, 'tests/daemon/.libs/btrnbdtest.so')
        yield Plugin('test', [test, f'size={SPAN}'], tries=True)
        yield Plugin('memory', ['memory', str(SPAN)])
        path = os.path.join(self.dir, 'file.img')
        with open(path, 'wb') as f:
            f.write(os.urandom(MIB) * (SPAN // MIB))
        yield Plugin('file', ['file', path])
        yield Plugin('btrfs', [os.path.join(
            self.build, 'plugins/btrfs/.libs/nbdkit-btrfs-plugin.so')],
            'disk', tries=True)

    def pool(self, name):
        """Each host has a pool of its own, of the same contents."""
        path = os.path.join(self.dir, f'{name}.img')
        btrnbd = os.path.join(self.build, 'server/cli/btrnbd')
        run(btrnbd, '-d', path, 'mkfs', '--force', '--size', '2G')
        run(btrnbd, '-d', path, 'create', 'disk', '--size', str(SPAN))
        return path

    def host(self, name, plugin, transport):
        if plugin.name == 'btrfs':
            plugin = Plugin('btrfs', plugin.args + [self.pool(name)],
                            plugin.export)
        h = Host(self, name, plugin, transport)
        h.wait()
        return h

    def line(self, plugin, load, peer, ours):
        least = load.least if plugin.tries or load.name == MIXED else 1.0
        rate = ours.median(load, 'rate') / peer.median(load, 'rate')
        cpu = ours.median(load, 'cpu') / peer.median(load, 'cpu')
        p99 = ours.median(load, 'p99') / peer.median(load, 'p99')
        short = rate < least or \
            (plugin.tries and (cpu > CPU_MOST if load.name != MIXED
                               else p99 > P99_MOST))
        print(f'  {load.name:28}{peer.median(load, "rate"):10,.0f}'
              f'{ours.median(load, "rate"):10,.0f}{rate:7.2f}x'
              + (f' (>= {least})' if least else ' ' * 9)
              + f'{peer.median(load, "cpu"):7.2f}{ours.median(load, "cpu"):6.2f}'
              f'{cpu:6.2f}x{peer.median(load, "p99"):9,.0f}'
              f'{ours.median(load, "p99"):8,.0f}{p99:6.2f}x'
              f'{ours.median(load, "client"):6.2f}'
              + ('  <-' if short else ''), flush=True)
        if short:
            self.missed.append(f'{plugin.name}: {load.name}')

    def pair(self, plugin, transport):
        hosts = []
        print(f'{plugin.name}, {transport}')
        try:
            for name in ('nbdkit', 'btrnbdd'):
                hosts.append(self.host(name, plugin, transport))
            fill = Load('fill', 0, bs=MIB, depth=4, writes=100)
            for h in hosts:
                h.turn(fill, 1)
                h.turn(Load('warm', 0, bs=MIB, depth=4), 1)
            for load in LOADS:
                if not re.search(self.opts.only, load.name):
                    continue
                for _ in range(self.opts.turns):
                    for h in hosts:
                        h.turn(load, self.opts.seconds)
                self.line(plugin, load, *hosts)
            print('  peak RSS: ' + ', '.join(
                f'{h.name} {peak_rss(h.process.pid) / MIB:.0f} MiB'
                for h in hosts))
        finally:
            for h in hosts:
                h.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--build', default='.', help='the build directory')
    p.add_argument('--dir', help='where images and sockets go')
    p.add_argument('--seconds', type=int, default=1, help='of a turn')
    p.add_argument('--turns', type=int, default=3)
    p.add_argument('--only', default='', help='loads that match')
    p.add_argument('--plugins', default='', help='plugins that match')
    p.add_argument('--transports', default='unix,tcp')
    p.add_argument('--single', action='store_true',
                   help='the client sends every request by itself')
    opts = p.parse_args()
    directory = tempfile.mkdtemp(prefix='hosts.',
                                 dir=os.path.abspath(opts.dir or opts.build))
    bench = Bench(opts, directory)
    print(f'{"operations per second":30}{"nbdkit":>10}{"btrnbdd":>10}'
          f'{"":17}{"CPU s / 100k ops":>19}{"p99, us":>23}{"client":>7}')
    try:
        for plugin in bench.plugins():
            if re.search(opts.plugins, plugin.name):
                for transport in opts.transports.split(','):
                    bench.pair(plugin, transport)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f'CPU should be at most {CPU_MOST} of nbdkit\'s, and p99 of the '
          f'mixed load {P99_MOST}, where a plugin has try-calls.')
    print('short of what we want: ' + ('; '.join(bench.missed) or 'nothing'))


if __name__ == '__main__':
    main()
