"""What a Mac keeps beside a file's bytes, after a restore: Finder tags, ACLs, `hidden`. Linux keeps it in attributes of its own.

The danger prevented here: a person who could not read a path before a restore, and can afterwards. On a Mac an ACL allows that
whatever the mode says.
"""

import errno
import os
import sys

import pytest

from support import fake_libsystem
from support.command_in_process import InProcess
from support.fake_libsystem import ACL, CAROL, EVERYONE, FLAGS, HANDS_DOWN, HIDDEN, IMMUTABLE
from support.trees import plant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux answers for the Mac's library")
TAG = "user.com.apple.metadata:_kMDItemUserTags"
STRANGER = 65533


@pytest.fixture
def run(root, home, mac):
    made = InProcess(root, home)
    plant(root, {"a": b"first", "b": b"1"})
    made("save", "-m", "first", code=0)
    plant(root, {"a": b"second"})
    made("save", "-m", "second", code=0)
    return made


def acl_of(path):
    """The entries that a Mac would hold against a reader, handed down or not."""
    found = fake_libsystem.kept(path, ACL)
    return fake_libsystem.kept(os.path.dirname(path), HANDS_DOWN) or b"" if found is None else found


def test_what_replaces_a_file_has_its_tags_acl_and_hidden_flag(run, root):
    os.setxattr(root / "a", TAG, b"Red")
    os.setxattr(root / "a", "user.com.apple.ResourceFork", bytes(700))
    os.setxattr(root / "a", ACL, CAROL)
    os.setxattr(root / "a", FLAGS, b"%d" % HIDDEN)
    before = {name: os.getxattr(root / "a", name) for name in os.listxattr(root / "a")}
    for command in (("restore", "first", "-y"), ("undo", "-y"), ("redo", "-y")):
        inode = os.lstat(root / "a").st_ino
        run(*command, code=0)
        assert {name: os.getxattr(root / "a", name) for name in os.listxattr(root / "a")} == before, command
        assert os.lstat(root / "a").st_ino != inode
    assert (root / "a").read_bytes() == b"first"


@pytest.mark.parametrize("own", [b"", CAROL], ids=["no ACL", "an ACL"])
def test_what_its_directory_hands_down_opens_no_file_to_more_people_than_before(run, root, own):
    os.setxattr(root, HANDS_DOWN, EVERYONE)
    os.setxattr(root / "a", ACL, own)
    run("restore", "first", "-y", code=0)
    assert acl_of(root / "a") == own


def test_a_file_that_comes_back_as_a_new_one_has_what_its_directory_hands_down(run, root):
    os.setxattr(root, HANDS_DOWN, EVERYONE)
    os.unlink(root / "a")
    run("restore", "first", "-y", code=0)
    assert acl_of(root / "a") == EVERYONE


def test_flags_that_forbid_to_finish_a_file_are_not_copied(run, root):
    os.setxattr(root / "a", FLAGS, b"%d" % (HIDDEN | IMMUTABLE))
    run("restore", "first", "-y", code=0)
    assert os.getxattr(root / "a", FLAGS) == b"%d" % HIDDEN


@pytest.mark.parametrize("call, attribute, words", [
    ("fcopyfile", TAG, "its attributes cannot be set (Permission denied)"), ("fchflags", FLAGS, "its flags cannot be set (Permission denied)"),
], ids=["attributes", "flags"])  # fmt: skip
def test_what_did_not_take_is_named_and_the_bytes_are_there(run, mac, root, call, attribute, words):
    os.setxattr(root / "a", attribute, b"%d" % HIDDEN)
    mac.refuse[call] = errno.EACCES
    done = run("restore", "first", "-y", code=3)
    assert words in done.out + done.err and (root / "a").read_bytes() == b"first"


def test_an_acl_that_cannot_be_set_leaves_the_file_to_its_owner_and_is_named(run, mac, root):
    os.setxattr(root / "a", ACL, CAROL)
    os.chmod(root / "a", 0o644)
    mac.refuse["acl_set_fd"] = errno.EACCES
    done = run("restore", "first", "-y", code=3)
    assert "its ACL cannot be set (Permission denied)" in done.out + done.err
    assert os.stat(root / "a").st_mode & 0o777 == 0o600 and (root / "a").read_bytes() == b"first"


def test_a_resource_fork_does_not_give_a_file_the_time_of_its_restore(run, root, monkeypatch):
    copy = fake_libsystem.FakeLibSystem.do_fcopyfile

    def touching(fake, source, target, state, flags):
        os.utime(target, ns=(1, 1))
        return copy(fake, source, target, state, flags)

    monkeypatch.setattr(fake_libsystem.FakeLibSystem, "do_fcopyfile", touching)
    os.utime(root / "a", ns=(5 * 10**18 // 3, 10**18))
    run("save", "-m", "of a time", code=0)
    plant(root, {"a": b"third"})
    run("restore", "of a time", "-y", code=0)
    assert os.lstat(root / "a").st_mtime_ns == 10**18


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a file another user's")
@pytest.mark.parametrize("is_refused", [False, True])
def test_in_place_of_a_stranger_s_file_is_one_for_you_alone_or_it_is_said_that_others_may_use_it(run, mac, root, is_refused):
    os.setxattr(root, HANDS_DOWN, EVERYONE)
    os.setxattr(root / "a", ACL, CAROL)
    os.setxattr(root / "a", TAG, b"Red")
    os.chown(root / "a", STRANGER, STRANGER)
    if is_refused:
        mac.refuse["acl_set_fd"] = errno.EACCES
    done = run("restore", "first", "-y", code=3)
    said = done.out + done.err
    assert "restored for you alone, with mode 0600" in said and ("others may use it" in said) == is_refused
    assert acl_of(root / "a") == (EVERYONE if is_refused else b"") and TAG not in os.listxattr(root / "a")
    assert os.stat(root / "a").st_mode & 0o777 == 0o600
