#!/usr/bin/python3
"""A boot storm: 20 clones of one image read fully at once, cold.

Ours with a cache of a quarter of the image, as the default is of 1 GiB, and
with one that holds it; 20 qcow2 overlays over one base, served by one
qemu-storage-daemon; 20 reflinks in a kernel btrfs through the nbdkit file
plugin.  Everything is read from a loop device with direct I/O, where it is
counted; "memory" is what the server grew by, with the buffers of its clients,
or what the page cache did.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

from servers import GIB, MIB, Kernel, Loop, Ours, Server, peak_rss, run


def cached():
    with open('/proc/meminfo') as f:
        for line in f:
            if line.startswith('Cached:'):
                return int(line.split()[1]) * 1024
    return 0


def sectors_read(loop):
    return loop.stat()[2] * 512


def fill(path_or_handle, size):
    """Bytes that do not compress, and no two MiB the same."""
    chunk = os.urandom(MIB)
    for at in range(0, size, MIB):
        data = (at // MIB).to_bytes(8, 'little') + chunk[8:]
        if hasattr(path_or_handle, 'pwrite'):
            path_or_handle.pwrite(data, at)
        else:
            path_or_handle.write(data)


class OurClones(Ours):
    page_cache = False

    def __init__(self, bench, cache, daemon):
        bench.cache = cache
        super().__init__(bench, f'{"btrnbdd" if daemon else "nbdkit"} {cache}',
                         daemon, False)

    def prepare(self, n):
        self.start()
        h = self.connect()
        fill(h, self.bench.disk_size)
        h.flush()
        h.shutdown()
        self.stop()
        btrnbd = os.path.join(self.bench.build, 'server/cli/btrnbd')
        for i in range(n):
            run(btrnbd, '-d', self.loop.dev, 'clone', 'disk', f'vm{i}')

    def names(self, n):
        return [f'vm{i}' for i in range(n)]


class KernelClones(Kernel):
    page_cache = True

    def __init__(self, bench):
        super().__init__(bench, False)

    def prepare(self, n):
        disk = os.path.join(self.mnt, 'disk')
        with open(disk, 'r+b') as f:
            fill(f, self.bench.disk_size)
            os.fsync(f.fileno())
        for i in range(n):
            run('cp', '--reflink=always', disk,
                os.path.join(self.mnt, f'vm{i}'))
        run('btrfs', 'filesystem', 'sync', self.mnt)
        self.start()

    def names(self, n):
        return [f'vm{i}' for i in range(n)]


class Overlays(Server):
    """The base is the loop device itself, the overlays are empty."""

    page_cache = True

    def __init__(self, bench):
        self.loop = Loop(os.path.join(bench.dir, 'base.img'),
                         bench.disk_size)
        super().__init__(bench, 'qcow2', '', [])

    def command(self):
        args = ['qemu-storage-daemon',
                '--nbd-server', f'addr.type=unix,addr.path={self.sock}']
        for i in range(self.bench.opts.clones):
            args += ['--blockdev', f'driver=qcow2,node-name=o{i},'
                     f'file.driver=file,file.filename={self.overlay(i)}',
                     '--export',
                     f'type=nbd,id=e{i},node-name=o{i},name=vm{i}']
        return args

    def overlay(self, i):
        return os.path.join(self.bench.dir, f'overlay{i}.qcow2')

    def prepare(self, n):
        self.export = 'vm0'
        with open(self.loop.dev, 'r+b') as f:
            fill(f, self.bench.disk_size)
            os.fsync(f.fileno())
        for i in range(n):
            run('qemu-img', 'create', '-q', '-f', 'qcow2', '-F', 'raw', '-b',
                self.loop.dev, self.overlay(i))
        self.start()

    def names(self, n):
        return [f'vm{i}' for i in range(n)]

    def close(self):
        super().close()
        self.loop.close()


def storm(server, n):
    """Seconds, bytes read from the disk, memory."""
    server.cool()
    before, memory = sectors_read(server.loop), cached()
    base = peak_rss(server.process.pid)
    start = time.monotonic()
    readers = [subprocess.Popen(['nbdcopy', '--connections=1', '--threads=1',
                                 server.uri(name), 'null:'])
               for name in server.names(n)]
    bad = [status for r in readers if (status := r.wait()) != 0]
    seconds = time.monotonic() - start
    if bad:
        raise RuntimeError(f'{server.name}: {len(bad)} readers failed')
    memory = cached() - memory if server.page_cache else \
        peak_rss(server.process.pid) - base
    return seconds, sectors_read(server.loop) - before, memory


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--build', default='.', help='the build directory')
    p.add_argument('--dir', help='where the images go')
    p.add_argument('--clones', type=int, default=20)
    p.add_argument('--span', type=int, default=1024, help='MiB of the image')
    p.add_argument('--only', default='', help='servers whose name has it')
    opts = p.parse_args()
    if os.geteuid() != 0:
        sys.exit('bench: needs root for loop devices and mounts')
    opts.disk = opts.span * MIB
    directory = tempfile.mkdtemp(prefix='bench.',
                                 dir=os.path.abspath(opts.dir or opts.build))
    bench = argparse.Namespace(opts=opts, dir=directory, written=False,
                               build=os.path.abspath(opts.build),
                               disk_size=opts.disk, cache='',
                               pool_size=2 * opts.disk + GIB)
    small, big = f'{opts.span // 4}M', f'{opts.span * 6 // 5}M'
    servers = [lambda: OurClones(bench, small, False),
               lambda: OurClones(bench, big, False),
               lambda: OurClones(bench, small, True),
               lambda: OurClones(bench, big, True),
               lambda: KernelClones(bench)]
    if shutil.which('qemu-storage-daemon'):
        servers.append(lambda: Overlays(bench))
    print(f'{opts.clones} clones of {opts.span} MiB, read at once, cold '
          '(wanted of ours: read <= 1.05x, memory <= 1.1x, faster than qcow2)')
    try:
        for make in servers:
            server = make()
            try:
                if opts.only not in server.name:
                    continue
                server.prepare(opts.clones)
                seconds, read, memory = storm(server, opts.clones)
                print(f'{server.name:16} {seconds:7.1f} s   read '
                      f'{read / MIB:8,.0f} MiB ({read / opts.disk:5.2f}x)   '
                      f'memory {memory / MIB:8,.0f} MiB '
                      f'({memory / opts.disk:5.2f}x)', flush=True)
            finally:
                server.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == '__main__':
    main()
