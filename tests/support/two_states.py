"""One small project in two states, that differ in every way in which a restore can have work to do.

`THEN` is what the checkpoint holds, `NOW` what stands there when the command under test runs.
"""

import os
import random
import shutil
import zlib

from support.trees import Dir, Exec, Link, plant

_NOISE = random.Random(20240611).randbytes(1_300_000)

_BOTH = {
    "same.txt": b"the same then and now\n",
    "src/same.py": b"import os\n",
    b"src/na\xffme \n.py": b"an odd name\n",
}
THEN = {
    **_BOTH,
    ".gitignore": b"*.tmp\n",
    "src/edited.py": b"old\n" * 300,
    "src/back.txt": b"was deleted since\n",
    "lost/with/its/directories.txt": b"was deleted with its directories\n",
    "lost/hollow": Dir(0o750),
    "shape/file": b"a file then, a directory now\n",
    "shape/directory/one": b"1",
    "shape/directory/two/three": b"3",
    "links/turned": Link("../same.txt"),
    "links/to-file": Link("nowhere"),
    "links/from-file": b"a file then, a link now\n",
    "links/gone": Link("../src"),
    "run.sh": Exec(b"#!/bin/sh\n"),
    "tight": Dir(0o700),
    "big.bin": _NOISE[:1_200_000],
    "trace.log": b"captured then, ignored now\n",
    "hollow": Dir(),
    "none": b"",
}
NOW = {
    **_BOTH,
    ".gitignore": b"*.tmp\n*.log\n",
    "src/edited.py": b"new\n" * 200,
    "src/extra.txt": b"came since\n",
    "came/with/its/directories.txt": b"came with its directories\n",
    "came/hollow": Dir(),
    "shape/file/inner": b"a directory now\n",
    "shape/file/deeper/inner": b"and one below\n",
    "shape/directory": b"a file now, a directory then\n",
    "links/turned": Link("../none"),
    "links/to-file": b"a file now\n",
    "links/from-file": Link("../same.txt"),
    "links/came": Link("dangling"),
    "run.sh": b"#!/bin/sh\n",
    "tight": Dir(0o755),
    "big.bin": _NOISE[:600_000] + b"an insertion" + _NOISE[600_000:1_250_000],
    "trace.log": b"still written to\n",
    "none": b"not empty any more\n",
    "build.log": b"ignored now, unknown then: nobody's business\n",
}
AFTER = {**THEN, "build.log": NOW["build.log"]}
"""What a restore of THEN makes of NOW."""


def build(root, tree):
    """Make the directory `root` hold exactly `tree`, with times that hang on path and content only."""
    os.makedirs(root, exist_ok=True)
    for name in os.listdir(root):  # the directory itself stays the same one
        path = os.path.join(root, name)
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    plant(root, tree)
    for place, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    mark = zlib.crc32(path + file.read())
                os.utime(path, ns=(mark, 1_600_000_000_000_000_000 + mark))


def copy(source, target):
    """Make `target` a copy of the directory `source`: kinds, bytes, modes, file times."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
