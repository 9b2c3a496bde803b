# files.py write|verify DIR LOG: write files that tell their numbers, and note
# in LOG each whose fsync and whose directory's returned, until killed; or
# compare those that were noted.
import os, random, sys
what, top, acked = sys.argv[1:]
def content(i):
    r = random.Random(i)
    return r.randbytes(r.choice((1, 100, 4096, 5000, 70000, 300000)))
def path(i):
    return '%s/%d/%d' % (top, i % 7, i)
if what == 'write':
    log = os.open(acked, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for d in range(7):
        os.makedirs('%s/%d' % (top, d), exist_ok=True)
    os.sync()
    i = 0
    while True:
        fd = os.open(path(i), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(fd, content(i))
        os.fsync(fd)
        os.close(fd)
        fd = os.open(os.path.dirname(path(i)), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        os.write(log, b'%d\n' % i)
        i += 1
numbers = [int(n) for n in open(acked)]
wrong = [i for i in numbers
         if not os.path.exists(path(i))
         or open(path(i), 'rb').read() != content(i)]
print(len(numbers), 'files,', len(wrong), 'wrong:', wrong[:20])
sys.exit(len(wrong) > 0)
