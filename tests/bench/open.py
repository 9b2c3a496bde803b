#!/usr/bin/python3
"""Time and tree blocks to open a 1 TiB pool of many block groups, without
and with the block-group tree, beside the kernel's mount of the same image.

`answer` is the first read of an export (ro, rw) or the first write and flush
(write).  `of chunks` is the size of the chunk tree, of which we read what is
needed, and all before the first write.
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

MIB = 1 << 20
EXTENT = 4 * MIB


def run(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def fill(mnt, groups):
    """Allocate 4 MiB extents that do not merge over GROUPS GiB."""
    a, b = (os.open(os.path.join(mnt, n), os.O_RDWR | os.O_CREAT)
            for n in ('a', 'b'))
    n = groups * 1024 // 4 // 2
    for i in range(n):
        # Two files in turn: neighbours on disk are never one extent.
        os.posix_fallocate(a, i * EXTENT, EXTENT)
        os.posix_fallocate(b, i * EXTENT, EXTENT)
    os.close(a)
    os.close(b)


def mount_ms(img, mnt):
    with open('/proc/sys/vm/drop_caches', 'w') as f:
        f.write('3')
    loop = run('losetup', '--show', '-f', '--direct-io=on', img).strip()
    try:
        start = time.monotonic()
        run('mount', '-t', 'btrfs', loop, mnt)
        ms = (time.monotonic() - start) * 1e3
        run('umount', mnt)
    finally:
        run('losetup', '-d', loop)
    return ms


def one(opts, directory, bgt):
    img = os.path.join(directory, 'pool.img')
    mnt = os.path.join(directory, 'mnt')
    btrnbd = os.path.join(opts.build, 'server/cli/btrnbd')
    opener = os.path.join(opts.build, 'tests/bench/open-pool')
    os.makedirs(mnt, exist_ok=True)
    if os.path.exists(img):
        os.unlink(img)
    run(btrnbd, '-d', img, 'mkfs', '--size', '1T', '--nodesize', '4K',
        *([] if bgt else ['-O', '^block-group-tree']))
    run(btrnbd, '-d', img, 'create', 'disk0', '--size', '1G')
    run('mount', '-o', 'loop', img, mnt)
    try:
        fill(mnt, opts.groups)
    finally:
        run('umount', mnt)
    dump = run('btrfs', 'inspect-internal', 'dump-tree', '-t', 'chunk', img)
    groups = dump.count('CHUNK_ITEM')
    chunk_blocks = len(re.findall(r'^(?:leaf|node) .* owner CHUNK_TREE$',
                                  dump, re.M))
    kernel = min(mount_ms(img, mnt) for _ in range(opts.repeat))
    rows = {}
    for mode in 'ro', 'rw', 'write':
        got = [json.loads(run(opener, img, mode))
               for _ in range(opts.repeat)]
        rows[mode] = min(got, key=lambda g: g['answer_ms'])
    return groups, chunk_blocks, kernel, rows


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--build', default='.')
    p.add_argument('--dir')
    p.add_argument('--groups', type=int, default=1010,
                   help='GiB to allocate, one block group each')
    p.add_argument('--repeat', type=int, default=3)
    opts = p.parse_args()
    if os.geteuid() != 0:
        sys.exit('open.py: needs root for loop devices and mounts')
    directory = tempfile.mkdtemp(prefix='bench.', dir=opts.dir or opts.build)
    print(f'\n{"1 TiB, 4K nodes":34}{"groups":>7}{"kernel ms":>10}'
          f'{"open ms":>9}{"answer":>9}{"ratio":>7}{"blocks":>8}'
          f'{"to answer":>10}{"of chunks":>10}{"RSS MiB":>8}')
    try:
        for bgt in False, True:
            groups, chunk, kernel, rows = one(opts, directory, bgt)
            for mode, r in rows.items():
                name = ('with' if bgt else 'without') + \
                    f' block-group tree, {mode}'
                print(f'{name:34}{groups:7}{kernel:10.1f}'
                      f'{r["open_ms"]:9.1f}{r["answer_ms"]:9.1f}'
                      f'{r["answer_ms"] / kernel:7.2f}{r["open_blocks"]:8}'
                      f'{r["answer_blocks"]:10}{chunk:10}'
                      f'{r["rss_kib"] / 1024:8.1f}')
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == '__main__':
    main()
