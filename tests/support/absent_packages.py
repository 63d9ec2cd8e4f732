"""Takes an optional package away, really: its import fails, in this process or in those that a test starts.

CASREWIND_TEST_WITHOUT="re2 zstandard" does it for a whole session: `CASREWIND_TEST_WITHOUT=re2 sh tests/run.sh tests/gitignore`.
"""

import os
import sys
from pathlib import Path

OPTIONAL = tuple(sorted(path.name for path in (Path(__file__).parent / "absent").iterdir()))


def search_path(*names):
    """PYTHONPATH for a process that does not find these packages."""
    places = [str(Path(__file__).parent / "absent" / name) for name in names]
    assert all(map(os.path.isdir, places)), names
    return os.pathsep.join([*places, *filter(None, [os.environ.get("PYTHONPATH")])])


def take_away_from_session():
    """Before casrewind is imported."""
    names = os.environ.get("CASREWIND_TEST_WITHOUT", "").split()
    if names and search_path(*names).split(os.pathsep)[0] not in sys.path:
        assert not set(names) & set(sys.modules), "too late"
        os.environ["PYTHONPATH"] = search_path(*names)
        sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)[: len(names)]
