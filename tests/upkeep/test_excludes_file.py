"""A project's own configuration may name any file as rules: those count, as in git, and their bytes are not stored."""

import os

import pytest

from casrewind.workspace import Workspace
from support.trees import plant

KEY = b"*.key-of-mine\nTOP-SECRET-WORD\n"


def held(workspace):
    return {path for path, entry in workspace.entries("last") if entry.kind != "dir"}


def stored(workspace):
    """The bytes of all rules that the newest checkpoint names."""
    domain = workspace.domain("last")
    return [workspace._context.store.read(rule.digest) for rule in domain.rules]


@pytest.fixture
def outside(tmp_path):
    plant(tmp_path, {"elsewhere/id_rsa": KEY})
    return tmp_path / "elsewhere/id_rsa"


def by_link(root, outside):
    plant(root, {".git/HEAD": b""})
    os.makedirs(root / ".git/info")
    os.symlink(outside, root / ".git/info/exclude")


def by_configuration(root, outside):
    plant(root, {".git/HEAD": b"", ".git/config": b"[core]\nexcludesFile = %s\n" % os.fsencode(outside)})


def by_include(root, outside):
    plant(root, {".git/HEAD": b"", ".git/config": b"[include]\npath = more\n"})
    plant(root, {".git/more": b"[core]\nexcludesFile = %s\n" % os.fsencode(outside)})


def by_link_inside(root, outside):
    plant(root, {".git/HEAD": b"", ".git/config": b"[core]\nexcludesFile = mine\n"})
    os.symlink(outside, root / "mine")


@pytest.mark.parametrize("way", [by_configuration, by_include, by_link, by_link_inside])
def test_rules_that_a_project_names_elsewhere_count_and_are_not_stored(root, settings, outside, way):
    way(root, outside)
    plant(root, {"f": b"1", "x.key-of-mine": b"ignored"})
    with Workspace(str(root), settings, create=True) as workspace:
        first = workspace.save()
        assert held(workspace) - {b"mine"} == {b"f"} and first.faults == ()
        assert stored(workspace) == []
        assert not workspace.save().created
        plant(root, {"f": b"2", "made since": b"x"})
        done = workspace.restore(first.checkpoint)
        assert (root / "f").read_bytes() == b"1"
        assert (root / "made since").exists() and (root / "x.key-of-mine").exists()
        assert any("not stored" in item.reason for item in done.kept)
        assert workspace.verify().problems == ()
    outside.write_bytes(KEY + b"*.other\n")
    with Workspace(str(root), settings, create=True) as workspace:
        assert workspace.save().created, "other rules are another domain"


def test_rules_of_the_user_and_those_inside_of_the_root_are_stored_as_before(root, home, settings):
    plant(home, {".gitconfig": b"[core]\nexcludesFile = ~/mine\n", "mine": b"*.o\n"})
    plant(root, {".git/info/exclude": b"*.p\n", "f": b"1"})
    with Workspace(str(root), settings, create=True) as workspace:
        first = workspace.save()
        assert sorted(stored(workspace)) == [b"*.o\n", b"*.p\n"]
        plant(root, {"made since": b"x"})
        workspace.restore(first.checkpoint)
        assert not (root / "made since").exists()
    plant(root, {".git/config": b"[core]\nexcludesFile = rules\n", "rules": b"*.q\n"})
    with Workspace(str(root), settings, create=True) as workspace:
        workspace.save()
        assert sorted(stored(workspace)) == [b"*.p\n", b"*.q\n"]
