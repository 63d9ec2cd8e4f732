"""python -m benchmarks.compare.fill NUMBER: that many checkpoints of the current directory, by the Python API.

Every tenth follows an edit of the first file; the others share its state, as most checkpoints of hooks do. All have a label, so that
gc forgets none of them.
"""

import os
import sys

import casrewind

_EVERY = 10


def main(number):
    """Make them, in the store below $CASREWIND_HOME."""
    first = min(entry.name for entry in os.scandir(".") if entry.is_file())
    settings = casrewind.Settings(home=os.environ["HOME"], data=os.environ["CASREWIND_HOME"], environ={})
    with casrewind.open(".", settings) as workspace:
        for step in range(number):
            if step % _EVERY == 0:
                with open(first, "ab") as file:
                    file.write(b"# checkpoint %d\n" % step)
            workspace.save(f"checkpoint {step}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
