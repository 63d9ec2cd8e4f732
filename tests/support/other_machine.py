"""The checkpoints of another machine, put into the store of a project here. Nothing of that machine is needed any more."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

from casrewind.model import checkpoint as checkpoints
from casrewind.history import conversation
from casrewind.settings import Settings, open_until_end
from casrewind.store import ledger
from casrewind.store.store import Store


def settings_of(casrewind):
    """The settings of a command of the tests."""
    return Settings(home=casrewind.home, data=os.path.join(casrewind.home, "data"), environ=casrewind.environment)


@contextmanager
def context_of(casrewind):
    """The open project of a command of the tests."""
    with open_until_end(casrewind.root, settings_of(casrewind), create=True) as context:
        yield context


def take_away(casrewind, directory):
    """A copy of what a push sends of a project: its packs and its checkpoints."""
    with context_of(casrewind) as context:
        store = context.store.path
    shutil.copytree(store, directory)
    return directory


def bring(store, casrewind, *, machine=""):
    """Put a copy of `take_away` into the store of a project without checkpoints, as a clone does (with `machine`: as a pull
    does); the checkpoints, oldest first."""
    with Store(str(store)) as there:
        points = [point for point, _ in there.checkpoints()][::-1]
    with context_of(casrewind) as here:
        for pack in (Path(store) / "packs").iterdir():
            shutil.copy(pack, Path(here.store.path) / "packs")
        index = Path(here.store.path) / "index"
    shutil.rmtree(index, ignore_errors=True)  # it does not know these packs
    with context_of(casrewind) as here:
        for point in points:
            if machine:
                found = point._replace(worktree=bytes(16), more=point.more._replace(machine=machine))
            else:
                found = conversation.with_transcript_path_here(point, here.root.path, here.homes)
                found = found._replace(worktree=here.root.key, root=os.fsencode(here.root.path))
            here.store.append(ledger.CHECKPOINT, checkpoints.encode(found))
        return [point for point, _ in here.store.checkpoints()][::-1]
