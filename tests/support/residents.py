"""The helpers (casrewind watch) that hooks have started."""

import os


def helpers(root):
    """The processes of those of a root. A dead one that nobody has waited for is none."""
    found, root = [], os.fsencode(os.path.realpath(root))
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")[:-1]
        except OSError:
            continue
        if words[-4:] == [b"-C", root, b"watch", b"--auto"]:
            found.append(int(name))
    return found
