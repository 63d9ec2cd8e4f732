"""What macOS forbids by flags of a file or a directory (chflags, System Integrity Protection), found before the first change.

Only the flags are made up here: Linux has none in what stat returns. The restore that is refused is a real one.
"""

import os
import stat

import pytest

from support.command_in_process import InProcess
from support.trees import plant

RESTRICTED, NO_UNLINK = 0x80000, 0x100000


class Flagged:
    """What stat returned, with flags as macOS has them."""

    def __init__(self, status, flags):
        self._status, self.st_flags = status, flags

    def __getattr__(self, name):
        return getattr(self._status, name)


@pytest.fixture
def flag(monkeypatch, root):
    """flag("d", stat.UF_IMMUTABLE): that file or directory of the project has the flags."""
    flags, real = {}, {name: getattr(os, name) for name in ("stat", "fstat", "lstat")}

    def watched(name):
        def call(*given, **more):
            status = real[name](*given, **more)
            return Flagged(status, flags.get(status.st_ino, 0))

        return call

    for name in real:
        monkeypatch.setattr(os, name, watched(name))
    return lambda name, value: flags.__setitem__(real["lstat"](root / name).st_ino, value)


@pytest.fixture
def command(root, home):
    return InProcess(root, home)


@pytest.fixture
def edited(root, command):
    """A checkpoint "then", and edits since: of a file, of one in a directory, and of a mode."""
    plant(root, {"f": b"1", "d/x": b"1", "m": b"1"})
    command("save", "-m", "then", code=0)
    plant(root, {"f": b"2", "d/x": b"2", "d/new": b"n"})
    (root / "m").chmod(0o755)
    command("save", code=0)
    return root


@pytest.mark.parametrize(("value", "words"), [
    (stat.UF_IMMUTABLE, "immutable (chflags nouchg removes that)"),
    (stat.SF_IMMUTABLE, "immutable (sudo chflags noschg removes that)"),
    (stat.UF_APPEND, "append-only (chflags nouappnd removes that)"),
    (stat.SF_APPEND, "append-only (sudo chflags nosappnd removes that)"),
    (RESTRICTED, "guarded by macOS itself (System Integrity Protection)"),
])  # fmt: skip
@pytest.mark.parametrize(("place", "named"), [("f", "f is "), ("d", "the directory d is "), ("m", "m is ")])
def test_a_flag_of_a_file_or_a_directory_is_named_and_nothing_is_changed(edited, command, flag, place, named, value, words):
    flag(place, value)
    said = command("restore", "then", "--yes", code=14).err
    assert f"{named}{words}" in said and "nothing was changed" in said and "chmod" not in said
    assert (edited / "f").read_bytes() == b"2" and (edited / "d/x").read_bytes() == b"2"


def test_what_nobody_may_remove_is_not_replaced_and_may_get_another_mode(edited, command, flag):
    flag("m", NO_UNLINK)
    flag("d", NO_UNLINK)  # the names in it may change
    command("restore", "then", "--yes", code=0)
    command("undo", "--yes", code=0)
    flag("f", NO_UNLINK)
    assert "f is one that nobody may remove (sudo chflags nosunlnk removes that)" in command("restore", "then", "--yes", code=14).err
    assert (edited / "f").read_bytes() == b"2"


def test_other_flags_forbid_nothing(edited, command, flag):
    flag("f", stat.UF_HIDDEN | stat.UF_NODUMP | 0x40)  # hidden, not dumped, tracked
    flag("d", stat.UF_HIDDEN)
    command("restore", "then", "--yes", code=0)
    assert (edited / "f").read_bytes() == b"1"
