"""A program that lets a directory and a link to outside trade names until it is told to stop; then it says how often.

As fast as it can; with "pausing" for moments only, with pauses of up to 40 ms in which all is as it should be: then what
casrewind does gets as far as its middle before names are exchanged.
"""

import contextlib
import ctypes
import os
import random
import signal
import stat
import sys
import time

EXCHANGE = 2


def main():
    root = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    one, other = (name.encode() for name in sys.argv[2:4])
    call = ctypes.CDLL(None, use_errno=True).renameat2
    if call(root, one, root, other, EXCHANGE) != 0 or call(root, one, root, other, EXCHANGE) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    stop, done, chance = [], 0, random.Random(1)
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    print("swapping", flush=True)
    while not stop:
        if "pausing" in sys.argv:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISLNK(os.lstat(one, dir_fd=root).st_mode):  # the tree was put in order between two exchanges
                    call(root, one, root, other, EXCHANGE)
            time.sleep(chance.random() * 0.04)
            for _ in range(chance.choice((1, 1, 3, 40))):
                done += call(root, one, root, other, EXCHANGE) == 0
                time.sleep(chance.random() * chance.choice((0.0, 0.0001, 0.001)))
                done += call(root, one, root, other, EXCHANGE) == 0
        else:
            done += call(root, one, root, other, EXCHANGE) == 0
    print(done)


if __name__ == "__main__":
    main()
