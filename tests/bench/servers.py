"""The servers that the benches compare, each on a device of its own."""

import os
import signal
import subprocess
import time

import nbd

MIB = 1 << 20
GIB = 1 << 30
TICK = os.sysconf('SC_CLK_TCK')


def run(*args, **kw):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, **kw).stdout


def proc_cpu(pid):
    with open(f'/proc/{pid}/stat') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def machine_cpu():
    with open('/proc/stat') as f:
        n = [int(x) for x in f.readline().split()[1:]]
    return (sum(n[:3]) + sum(n[5:8])) / TICK


def peak_rss(pid):
    with open(f'/proc/{pid}/status') as f:
        for line in f:
            if line.startswith('VmHWM'):
                return int(line.split()[1]) * 1024
    return 0


def drop_caches():
    if os.geteuid() == 0:
        with open('/proc/sys/vm/drop_caches', 'w') as f:
            f.write('3')


def disk_names(count):
    return ['disk'] + [f'disk{n}' for n in range(1, count)]


class Loop:
    """A file of SIZE bytes behind a loop device with direct I/O.

    One that is WRITTEN has all its blocks, as a disk has: a flush of a sparse
    file makes the filesystem below commit what it has allocated.
    """

    def __init__(self, path, size, written=False):
        self.path = path
        with open(path, 'wb') as f:
            for _ in range(size // MIB if written else 0):
                f.write(bytes(MIB))
            f.truncate(size)
            os.fsync(f.fileno())
        self.dev = run('losetup', '--show', '-f', '--direct-io=on',
                       path).strip()

    def stat(self):
        name = os.path.basename(self.dev)
        with open(f'/sys/block/{name}/stat') as f:
            return [int(x) for x in f.read().split()]

    def written(self):
        return self.stat()[6] * 512

    def writes(self):
        return self.stat()[4]

    def flushes(self):
        return self.stat()[15]

    def close(self):
        subprocess.run(['losetup', '-d', self.dev])
        os.unlink(self.path)


class Server:
    """An nbdkit with its arguments; restart () makes it cold."""

    def __init__(self, bench, name, export, args):
        self.bench, self.name, self.export, self.args = \
            bench, name, export, args
        self.sock = os.path.join(bench.dir, name.replace(' ', '-') + '.sock')
        self.rss = 0
        self.process = None

    def command(self):
        return ['nbdkit', '-f', '--exit-with-parent', '-U', self.sock]

    def start(self):
        if os.path.exists(self.sock):
            os.unlink(self.sock)
        with open(self.sock + '.log', 'a') as log:
            self.process = subprocess.Popen(
                self.command() + self.args, stdin=subprocess.DEVNULL,
                stderr=log)
        for _ in range(600):
            if os.path.exists(self.sock):
                try:
                    return self.connect().shutdown()
                except nbd.Error:
                    pass
            if self.process.poll() is not None:
                with open(self.sock + '.log') as log:
                    raise RuntimeError(f'{self.name} did not start: '
                                       + log.read())
            time.sleep(0.05)
        raise RuntimeError(f'{self.name}: nbdkit does not answer')

    def stop(self):
        if self.process:
            self.rss = max(self.rss, peak_rss(self.process.pid))
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            self.process = None

    def cool(self):
        self.stop()
        drop_caches()
        self.start()

    def uri(self, export=None):
        return f'nbd+unix:///{export or self.export}?socket={self.sock}'

    def connect(self):
        h = nbd.NBD()
        h.connect_uri(self.uri())
        return h

    def written(self):
        return 0

    def close(self):
        self.stop()


class Ours(Server):
    """A pool with the volumes disk, disk1, disk2, ..., DISKS in all."""

    def __init__(self, bench, name, daemon, nocow, disks=1):
        self.daemon = daemon
        self.loop = Loop(os.path.join(bench.dir, 'ours.img'),
                         bench.pool_size, bench.written)
        try:
            btrnbd = os.path.join(bench.build, 'server/cli/btrnbd')
            run(btrnbd, '-d', self.loop.dev, 'mkfs', '--force')
            for disk in disk_names(disks):
                run(btrnbd, '-d', self.loop.dev, 'create', disk, '--size',
                    str(bench.disk_size), *(['--nocow'] if nocow else []))
        except BaseException:
            self.loop.close()
            raise
        super().__init__(
            bench, name, 'disk',
            [os.path.join(bench.build,
                          'plugins/btrfs/.libs/nbdkit-btrfs-plugin.so'),
             self.loop.dev, f'cache-size={bench.cache}'])

    def command(self):
        if not self.daemon:
            return super().command()
        return [os.path.join(self.bench.build, 'btrnbdd'),
                '-l', f'unix:{self.sock}', '--plugin']

    def written(self):
        return self.loop.written()

    def close(self):
        super().close()
        self.loop.close()


class Memory(Server):
    def __init__(self, bench):
        super().__init__(bench, 'memory', '',
                         ['memory', str(bench.disk_size)])

    def cool(self):
        pass


class Kernel(Server):
    """The file plugin on files of a kernel btrfs, named as ours are."""

    def __init__(self, bench, nocow, disks=1):
        name = 'kernel nocow' if nocow else 'kernel cow'
        self.loop = Loop(os.path.join(bench.dir, 'kernel.img'),
                         bench.pool_size, bench.written)
        self.mnt = os.path.join(bench.dir, 'mnt')
        os.makedirs(self.mnt, exist_ok=True)
        try:
            run('mkfs.btrfs', '-q', '-f', self.loop.dev)
            run('mount', '-o', 'ssd', self.loop.dev, self.mnt)
        except BaseException:
            self.loop.close()
            raise
        for name_of in disk_names(disks):
            disk = os.path.join(self.mnt, name_of)
            open(disk, 'w').close()
            if nocow:
                run('chattr', '+C', disk)
            os.truncate(disk, bench.disk_size)
        super().__init__(bench, name, 'disk', ['file', f'dir={self.mnt}'])

    def written(self):
        return self.loop.written()

    def cool(self):
        self.stop()
        run('umount', self.mnt)
        drop_caches()
        run('mount', '-o', 'ssd', self.loop.dev, self.mnt)
        self.start()

    def close(self):
        super().close()
        subprocess.run(['umount', self.mnt])
        self.loop.close()
