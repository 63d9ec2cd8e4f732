"""Libraries to preload: compiling them, and speaking to the fault shim from inside a process that it is loaded into."""

import ctypes
import os
import shutil
import subprocess

KILL, FAIL, HALF, TEAR = 1, 2, 3, 4

_FAULTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "faults")
SOURCE = os.path.join(_FAULTS, "shim", "faultshim.c")
CLOCK = os.path.join(_FAULTS, "clock", "clockshim.c")
_UNITS = {"h": 3600, "d": 86_400, "y": 365 * 86_400}


def compile_shim(directory, source=SOURCE):
    """The path of the compiled library, or None when there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    made = os.path.join(directory, os.path.basename(source).replace(".c", ".so"))
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-U_FORTIFY_SOURCE"]
    subprocess.run([compiler, *flags, "-o", made, source, "-ldl"], check=True)
    return made


def seconds(when):
    """-86400 for "-1d"; also y (365 days) and h; "+0" is 0."""
    return int(when) if when[-1].isdigit() else int(when[:-1]) * _UNITS[when[-1]]


class Shim:
    """The shim that this very process was started with."""

    def __init__(self):
        self._library = ctypes.CDLL(None)
        self._library.shim_arm.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_int]
        self._library.shim_counted.restype = self._library.shim_fired.restype = ctypes.c_long

    def arm(self, at, act=0, error=0, *, forever=False):
        """Count from now on; do `act` at call `at` (0: never)."""
        self._library.shim_arm(at, act, error, forever)

    def rest(self):
        """Neither count nor act."""
        self._library.shim_rest()

    @property
    def counted(self):
        return self._library.shim_counted()

    @property
    def fired(self):
        return self._library.shim_fired()
