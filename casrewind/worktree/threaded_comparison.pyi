# The compiled threaded_comparison.c: `positions_that_differ` as in model/stamp.py, on two threads. It is missing where the
# installation had no compiler, and outside of Linux.

def positions_that_differ(names: bytes, packed: bytes, fd: int, device: int | None = None, /) -> list[int]: ...
