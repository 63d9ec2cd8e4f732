"""A program that lets a directory and a link to outside trade names as fast as it can, until it is killed."""

import ctypes
import os
import sys

EXCHANGE = 2

if __name__ == "__main__":
    root = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    one, other = (name.encode() for name in sys.argv[2:4])
    call = ctypes.CDLL(None, use_errno=True).renameat2
    if call(root, one, root, other, EXCHANGE) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    print("swapping", flush=True)
    while True:
        call(root, one, root, other, EXCHANGE)
