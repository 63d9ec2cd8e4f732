"""Files and directories whose contents only a cloud has, as macOS shows them: a name, a size, times and a flag.

No program can set that flag, on a Mac either. So `fsio.is_on_disk` is asked by inode, and everything that would make a Mac
download a file fails the test: to open it, to list it, and to look at a path below it.
"""

import os
from contextlib import contextmanager

from casrewind import fsio
from casrewind.model import stamp
from casrewind.worktree import stat_index


class Cloud:
    """Evicts files. `downloads`: what was looked into although it was not on the disk; a test ends with none."""

    def __init__(self, monkeypatch):
        self.downloads, self._evicted = [], set()
        self._real = {name: getattr(os, name) for name in ("open", "stat", "lstat", "listdir", "scandir")}
        monkeypatch.setattr(fsio, "HAS_FILE_FLAGS", True)
        monkeypatch.setattr(fsio, "is_on_disk", lambda status: (status.st_dev, status.st_ino) not in self._evicted)
        monkeypatch.setattr(stat_index, "positions_that_differ", stamp.positions_that_differ)  # a look from C would not be seen
        for name in self._real:
            monkeypatch.setattr(os, name, self._watched(name))

    def evict(self, *places):
        """Take the contents off the disk. Size and mtime stay, the ctime changes."""
        for place in places:
            status = self._real["lstat"](place)
            self._evicted.add((status.st_dev, status.st_ino))
            os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))

    def change(self, place, data):
        """Another machine changes a file, which stays in the cloud."""
        with self.from_elsewhere():
            place.write_bytes(data)

    @contextmanager
    def from_elsewhere(self):
        """What is opened here is not opened on this machine."""
        evicted, self._evicted = self._evicted, set()
        try:
            yield
        finally:
            self._evicted = evicted

    def download(self, *places):
        """Bring the contents here, as a person does in Finder."""
        for place in places:
            status = self._real["lstat"](place)
            self._evicted.discard((status.st_dev, status.st_ino))

    def _watched(self, name):
        real, into = self._real[name], name in ("open", "listdir", "scandir")

        def call(path=".", *given, dir_fd=None, **more):
            if self._evicted and not isinstance(path, int):
                self._note_download(path, dir_fd, into=into)
            return real(path, *given, **more) if dir_fd is None else real(path, *given, dir_fd=dir_fd, **more)

        return call

    def _note_download(self, path, dir_fd, *, into):
        text = os.fsdecode(path)
        above = [text[:at] for at, letter in enumerate(text) if letter == "/" and at]
        for place in (*above, *([text] if into else [])):
            try:
                status = self._real["stat"](place, dir_fd=dir_fd, follow_symlinks=False)
            except OSError:
                continue
            if (status.st_dev, status.st_ino) in self._evicted:
                self.downloads.append(text)
                raise AssertionError(f"{text} would be downloaded")
