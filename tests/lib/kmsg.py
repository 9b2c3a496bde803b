"""What Linux complained about one loop device since a moment.

  kmsg.py mark                     prints the mark of this moment
  kmsg.py complaints MARK DEVICE   prints the complaints about e.g. loop3

A mark is the sequence number of the next record of /dev/kmsg, so it holds
when the ring buffer wraps.  Loop devices go from hand to hand: who asks has
taken the device before the mark, and gives it back after the answer.
"""
import os
import re
import sys


def records():
    """(sequence number, text) of all that the kernel still has."""
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                record = os.read(fd, 16384)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue        # overwritten meanwhile: go on with the rest
            head, _, text = record.decode(errors="replace").partition(";")
            yield int(head.split(",")[1]), text.split("\n")[0]
    finally:
        os.close(fd)


def mark():
    last = -1
    for last, _ in records():
        pass
    return last + 1


def complaints(since, device):
    # "(device loop3 state EA)" is one that is in trouble already.
    bad = re.compile(
        r"BTRFS:? (emergency|alert|critical|crit|error|warning) "
        r"\(device %s[ )]|I/O error,? (on )?dev %s[, :]" % (device, device))
    return [text for sequence, text in records()
            if sequence >= since and bad.search(text)]


def main():
    if sys.argv[1] == "mark":
        print(mark())
    else:
        print("".join(line + "\n"
                      for line in complaints(int(sys.argv[2]), sys.argv[3])),
              end="")


if __name__ == "__main__":
    main()
