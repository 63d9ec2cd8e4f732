"""Machines that share a remote: each has a home, a project and a store of its own, in this process."""

import itertools
import os
from contextlib import contextmanager

from casrewind.remote import clone, connect, remote_config
from casrewind.remote.remote_config import RemoteConfig
from casrewind.remote.piece_names import all_pieces_of, without_replaced
from casrewind.remote.objects import Objects
from casrewind.remote.pull import pull
from casrewind.remote.push import push
from casrewind.remote.seal import Keys, identity_of_head
from casrewind.settings import default_settings
from casrewind.workspace import Workspace
from support.trees import plant

KEY = remote_config.key_as_text(b"k" * 32)


class Stop(BaseException):
    """Ends a program at a request."""


class Requests:
    """Objects of a remote that call `meet(number, after)` before the effect of each request (after=False), and after it."""

    def __init__(self, objects, meet):
        self._objects, self._meet, self._numbers = objects, meet, itertools.count(1)

    def __getattr__(self, name):
        found = getattr(self._objects, name)
        if name not in ("put_new", "replace", "get", "list", "delete"):
            return found

        def call(*arguments):
            number = next(self._numbers)
            self._meet(number, False)
            result = found(*arguments)
            self._meet(number, True)
            return result

        return call


def stopping(wanted, *, after):
    """A function for `Requests`: the program ends at this request, and sends no other."""

    def meet(number, is_after):
        if number > wanted or (number == wanted and is_after == after):
            raise Stop

    return meet


class Machine:
    """A project with a remote. `tampered` replaces the objects of the remote in all that it does."""

    def __init__(self, place, url, name="sandbox-4", *, root=None):
        """`place` is a directory for home, stores and project."""
        self.place, self.url, self.name = place, str(url), name
        self.root = root or place / "project"
        self.home = place / "home"
        for path in (self.root, self.home):
            path.mkdir(parents=True, exist_ok=True)
        self.settings = default_settings()._replace(home=str(self.home), data=str(self.home / "data"), environ=self.environ)
        self.tampered = lambda objects: objects

    @property
    def environ(self):
        return {"HOME": str(self.home), "CASREWIND_REMOTE_KEY": KEY}

    @contextmanager
    def open(self):
        with Workspace(str(self.root), self.settings, create=True) as workspace:
            yield workspace

    def add_remote(self):
        with self.open() as workspace:
            return connect.add(workspace._context.store, RemoteConfig(self.url, self.name), self.environ)

    def save(self, files=(), label="", *, remove=()):
        plant(self.root, dict(files))
        for name in remove:
            os.unlink(os.fsencode(self.root) + b"/" + os.fsencode(name))
        with self.open() as workspace:
            return workspace.save(label).checkpoint

    @classmethod
    def with_remote(cls, place, url, name="sandbox-4", **options):
        """A machine that pushes to `url`."""
        made = cls(place, url, name, **options)
        made.add_remote()
        return made

    def remote(self, workspace):
        found = remote_config.open_remote(workspace._context.store)
        return found._replace(objects=self.tampered(found.objects))

    def push(self, **options):
        with self.open() as workspace:
            return push(workspace._context, self.remote(workspace), **options)

    def pull(self, **options):
        with self.open() as workspace:
            return pull(workspace._context, self.remote(workspace), **options)

    def clone_to(self, place, name="laptop", **options):
        """A new machine with a clone in its project."""
        made = Machine(place, self.url, name)
        made.root.rmdir()
        made.cloned = clone.clone(RemoteConfig(self.url, name), str(made.root), made.settings, made.environ, **options)
        return made

    def points(self):
        """{id: checkpoint} of all worktrees, without those for safety."""
        with self.open() as workspace:
            return {point.id: point for point, _ in workspace.checkpoints(every_worktree=True) if point.trigger != "safety"}

    def tree(self, identity):
        """{path: content} of the files in a checkpoint."""
        with self.open() as workspace:
            store = workspace._context.store
            return {
                path: b"".join(store.content(entry)) if entry.kind == "file" else (entry.kind, entry.digest)
                for path, entry in workspace.entries(identity)
            }

    def chain(self):
        """The id of the chain that this machine pushes."""
        with self.open() as workspace:
            return self.remote(workspace).files.state.chain

    def pull_names(self):
        """The names of the machines whose rows are here."""
        return {point.more.machine for point in self.points().values()} - {""}

    def problems(self):
        with self.open() as workspace:
            return workspace.verify().problems


def keys_of(url):
    """The keys of a remote that these machines made."""
    return Keys(b"k" * 32, identity_of_head(Objects(url).get("casrewind")))


def objects_in(url):
    """{name: bytes} of the files below a file:// remote."""
    top = url.removeprefix("file://")
    found = {}
    for place, _, names in os.walk(top):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, top)] = file.read()
    return found


def chains_of(listed):
    """{chain: its pieces in order} of a list of all objects, by their names."""
    return {chain: without_replaced(pieces) for chain, pieces in all_pieces_of(listed).items()}
