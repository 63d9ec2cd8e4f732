"""Who may use a file after a restore: owner, group, ACL and user attributes, for every kind of project and everybody who restores.

The danger prevented here: a person who could not read or write a path before a restore, and can afterwards. The kernel is asked what
each of five other users may do. Each cell of the table is printed (`-s`).
"""

import os
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
from contextlib import contextmanager

import pytest

from support.changes import edit_before_execution
from support import unprivileged
from support.agent_turns import AgentTurns
from support.other_users import ROOT, User, access_of, acl_of, as_user, require, rights, setfacl
from casrewind.workspace import Settings, Workspace
from support.sample_start import by_turns
from support.trees import Dir, Link, Mode, plant

TEAM, OTHER = 65000, 65001
OWNER = User(65534, 65534, (TEAM, OTHER))
SECOND = User(65533, 65533, (TEAM,))
CAROL, OUTSIDER = User(65532, 65532), User(65530, 65530)
MATE = User(65531, 65531, (OWNER.gid,))
PEOPLE = (OWNER, SECOND, CAROL, MATE, OUTSIDER)
RESTORERS = {"root": ROOT, "owner": OWNER, "second": SECOND}
NAMES = ("private", "group", "acl", "shared")
MODES = {"private": 0o400, "group": 0o600, "acl": 0o640, "shared": 0o644}
COLUMNS = [
    ("own", "root"), ("own", "owner"), ("set-gid", "root"), ("set-gid", "owner"), ("set-gid", "second"),
    ("default ACL", "root"), ("default ACL", "owner"), ("default ACL", "second"),
]  # fmt: skip
SHARED = [column for column in COLUMNS if column[0] != "own" and column[1] != "second"]
DISPLACED = ("content", "undo", "redo", "revert", "continue", "abort", "continue after naming", "abort after naming")


@pytest.fixture
def place():
    require("setfacl")
    unprivileged.require()  # the other users run code of this clone
    with unprivileged.open_directory(memory()) as found:
        yield found


def memory():
    """A directory in memory that knows ACLs and user attributes, else None: hundreds of restores wait for no disk there."""
    try:
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            os.setxattr(file.name, "user.note", b"x")
            setfacl(file.name, f"u:{CAROL.uid}:r")
    except (OSError, subprocess.CalledProcessError):
        return None
    return "/dev/shm"


class Project:
    """A project of OWNER, and one who restores in it."""

    def __init__(self, place, kind, restorer):
        self.root, self.home, self.user = place / "project", place / "home", RESTORERS[restorer]
        for directory in (self.root, self.home):
            directory.mkdir()
        os.chown(self.home, self.user.uid, self.user.gid)
        os.chown(self.root, OWNER.uid, OWNER.gid)
        os.chmod(self.root, 0o755)
        if kind == "set-gid":
            os.chown(self.root, OWNER.uid, TEAM)
            os.chmod(self.root, 0o2775)
        if kind == "default ACL":
            setfacl(self.root, f"u:{SECOND.uid}:rwx", f"d:u:{SECOND.uid}:rwx", f"d:u:{CAROL.uid}:r", "d:g::r-x")
        self.paths = [self.root / name for name in NAMES]
        self.allowed = {}

    def by(self, user, work):
        return as_user(user, work)

    def make(self, data):
        """OWNER makes all files."""

        def work():
            os.umask(0)
            for path in self.paths:
                with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o664), "wb") as file:
                    file.write(data)
            private, group, acl, shared = self.paths
            for path, gid, mode in ((private, -1, 0o600), (group, OTHER, 0o640), (acl, -1, 0o600), (shared, TEAM, 0o664)):
                os.chown(path, -1, gid)
                os.chmod(path, mode)
                os.setxattr(path, "user.note", b"of " + path.name.encode())
            setfacl(acl, f"u:{CAROL.uid}:rw")

        as_user(OWNER, work)
        self.look()

    def look(self):
        """What everybody may do now was allowed before any restore."""
        for (user, path), signs in rights(PEOPLE, self.paths).items():
            self.allowed.setdefault((user, path.name), set()).update(signs)

    def edit(self, data=b"now"):
        """OWNER writes into all files."""

        def work():
            for path in self.paths:
                path.write_bytes(data)

        as_user(OWNER, work)
        self.look()

    def access(self):
        return {path.name: access_of(path) for path in self.paths}

    def contents(self):
        return {path.name: path.read_bytes() if path.exists() else None for path in self.paths}

    def work(self, work, *, kill=0):
        """What `work(workspace)` returns, done by who restores; with `kill`, killed at that step of the restore."""

        def tell(activity, done, _):
            if activity == "restoring" and done == kill:
                os.kill(os.getpid(), signal.SIGKILL)

        def inside():
            settings = Settings(home=str(self.home), data=str(self.home / "data"), environ={"HOME": str(self.home)})
            with Workspace(str(self.root), settings, create=True, progress=tell if kill else None) as workspace:
                return work(workspace)

        return as_user(self.user, inside, dies=bool(kill))

    def save(self):
        return self.work(lambda workspace: workspace.save("x").checkpoint.id)

    def known(self, point):
        """The names of the files that the checkpoint has."""
        return {path.decode() for path in self.work(lambda workspace: [path for path, _ in workspace.entries(point)])} & set(NAMES)

    def who_gained(self):
        """(user, name, rights) that nobody had before."""
        found = rights(set(PEOPLE) - {self.user}, self.paths)
        return [(user, path.name, signs) for (user, path), signs in found.items() if set(signs) - self.allowed[user, path.name]]


def report(found):
    return {item.path.decode(): item.reason for item in found.kept}, found.incomplete


def do(project, op, confirm=None, between=lambda: None):
    """Change the files, and take that back by this operation; the checkpoint, and what the operation reports. `between`: what
    happens right before the operation."""
    if op in ("undo", "redo"):
        one = project.save()
        project.edit()
        project.work(lambda workspace: workspace.restore(one).op)
        if op == "redo":
            project.work(lambda workspace: workspace.undo().op)
        between()
        return one, project.work(lambda workspace: report(getattr(workspace, op)(confirm)))
    if op == "revert":
        one = project.work(lambda workspace: AgentTurns(workspace, project.root).prompt("p", "edit all").id)
        project.edit()
        project.work(lambda workspace: AgentTurns(workspace, project.root).stop("p").id)
        between()
        return one, project.work(lambda workspace: report(workspace.revert([1], confirm=confirm)))
    one = project.save()
    if op != "mode":
        project.edit()
    else:

        def work():
            for path in project.paths:
                os.chmod(path, MODES[path.name])

        as_user(OWNER, work)
    if op == "new":
        as_user(OWNER, lambda: [os.unlink(path) for path in project.paths] and None)
    count = len(project.known(one) & {path.name for path in project.paths})
    if op.startswith(("continue", "abort")):
        if op.endswith("naming"):
            between()
            as_user(OWNER, lambda: plant(project.root, {"added": b"a file to remove, after all others have their names"}))
            project.work(lambda workspace: workspace.restore(one), kill=count + 1)
        else:
            project.work(lambda workspace: workspace.restore(one), kill=count)
            between()
        return one, project.work(lambda workspace: report(workspace.finish_restore(forward=op.startswith("continue"))))
    between()
    return one, project.work(lambda workspace: report(workspace.restore(one, confirm=confirm)))


OWNERS = {"root": "owner: the root directory's", "owner": "owner: who restores", "second": "owner: who restores"}
BACK = ("undo", "abort", "abort after naming")
"""Operations after which the files have the edited content again."""


def told(kind, restorer, op, text):
    print(f"| {kind} | {restorer} | {op} | {text} |")


@pytest.mark.parametrize(("kind", "restorer"), by_turns(COLUMNS, 2))
def test_what_displaces_a_file_has_its_access(place, kind, restorer):
    for op in (*DISPLACED, *(["mode"] if restorer != "second" else [])):  # another user's mode cannot be changed
        inner = place / op.replace(" ", "-")
        inner.mkdir()
        project = Project(inner, kind, restorer)
        project.make(b"then")
        before = project.access()
        one, (kept, incomplete) = do(project, op)
        known = project.known(one)
        assert known == set(NAMES) or restorer == "second"
        assert "shared" in known
        after, contents = project.access(), project.contents()
        for name in known:
            assert contents[name] == (b"now" if op in BACK else b"then"), (op, name)
            if restorer == "second":
                assert after[name].uid == (OWNER.uid if op == "abort" else SECOND.uid)
            if restorer != "second" or (before[name].gid == TEAM and op != "abort"):
                assert after[name]._replace(uid=0) == before[name]._replace(uid=0), (op, name)
        assert project.who_gained() == [], op
        other_group = {name for name in known if restorer == "second" and before[name].gid not in SECOND.groups}
        assert set(kept) <= other_group, op
        told(kind, restorer, op, "all as before" if restorer != "second" else "owner: who restores; all else as before where the group can be")
        shutil.rmtree(inner)


@pytest.mark.parametrize(("kind", "restorer"), COLUMNS)
def test_a_new_file_is_the_root_directorys_owners_or_the_persons_own(place, kind, restorer):
    """Also one whose removal is undone. Neither group nor ACL is recorded: the directory decides, as for every new file. What the
    mode allows a group is then allowed to that group, and nobody else gains anything."""
    for op in ("new", "removed and undone"):
        inner = place / op.replace(" ", "-")
        inner.mkdir()
        project = Project(inner, kind, restorer)
        if op == "new":
            project.make(b"then")
            _, told_of = do(project, op)
            expected = b"then"
        else:
            as_user(OWNER, lambda: plant(project.root, {"other": b"1"}))
            one = project.save()
            project.make(b"now")
            project.work(lambda workspace: workspace.restore(one).op)
            left = [path.name for path in project.paths if path.exists()]
            assert left == [] or restorer == "second"
            told_of = project.work(lambda workspace: report(workspace.undo()))
            expected = b"now"
        assert told_of == ({}, False)
        owner = SECOND if restorer == "second" else OWNER
        group = TEAM if kind == "set-gid" else owner.gid
        new = {name: access for name, access in project.access().items() if access is not None and access.attributes == ()}
        assert set(new) == set(NAMES) or (restorer == "second" and "shared" in new)
        for name, access in new.items():
            assert (access.uid, access.gid) == (owner.uid, group), (op, name)
            assert (project.root / name).read_bytes() == expected
            assert bool(access.acl) == (kind == "default ACL")
        for person, name, _ in project.who_gained():
            in_group = group in (person.gid, *person.groups)
            by_default_acl = kind == "default ACL" and person in (SECOND, CAROL)
            assert new[name].mode & 0o070 and (in_group or by_default_acl), (op, person, name)
            assert name != "private"
        told(kind, restorer, op, f"{OWNERS[restorer]}; group, ACL: of a new file")
        shutil.rmtree(inner)


@pytest.mark.parametrize(("kind", "restorer"), COLUMNS)
def test_a_new_directory_or_link_is_the_root_directorys_owners_or_the_persons_own(place, kind, restorer):
    project = Project(place, kind, restorer)
    as_user(OWNER, lambda: plant(project.root, {"d/e/f": b"1", "d/l": Link("e/f"), "to link": b"x"}))
    one = project.save()
    as_user(OWNER, lambda: shutil.rmtree(project.root / "d"))
    assert project.work(lambda workspace: report(workspace.restore(one))) == ({}, False)
    owner = SECOND if restorer == "second" else OWNER
    for name in ("d", "d/e", "d/e/f", "d/l"):
        status = os.lstat(project.root / name)
        assert status.st_uid == owner.uid, name
        if name != "d/l":
            assert status.st_gid == (TEAM if kind == "set-gid" else owner.gid), name
    assert (project.root / "d/l").read_bytes() == b"1"
    assert stat.S_IMODE(os.stat(project.root / "d").st_mode) & 0o7000 == (0o2000 if kind == "set-gid" else 0)
    as_user(owner, lambda: plant(project.root, {"d/e/more": b"its owner can go on"}))
    told(kind, restorer, "new directory, new link", OWNERS[restorer])


@pytest.mark.parametrize("restorer", ["root", "owner"])
def test_a_default_acl_opens_no_file_that_had_none(place, restorer):
    """The draft of its new content inherits one."""
    for op in ("content", "continue after naming"):
        inner = place / op.replace(" ", "-")
        inner.mkdir()
        project = Project(inner, "own", restorer)
        project.make(b"then")
        setfacl(project.root, f"d:u:{OUTSIDER.uid}:rwx")
        before = project.access()
        do(project, op)
        assert project.access() == before
        assert project.who_gained() == []


# -- a second user who swaps


@contextmanager
def waiting(work):
    """A function that has `work` done by another process, for processes that may not become other users; it returns True."""
    (asked, ask), (done, tell) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ask)
        if os.read(asked, 1):
            work()
            os.write(tell, b"1")
        os._exit(0)
    os.close(tell)
    try:
        yield lambda: os.write(ask, b"1") == 1 and os.read(done, 1) == b"1"
    finally:
        for fd in (asked, ask, done):
            os.close(fd)
        os.waitpid(pid, 0)


def swap(project, data, new_mode=None):
    """SECOND puts files of his own, with this content and the same mode or another, in the place of all files. They are open to
    himself, to CAROL, and to OWNER, so that they can be replaced at all."""

    def work():
        for path in project.paths:
            mode = new_mode or stat.S_IMODE(os.stat(path).st_mode)
            os.unlink(path)
            with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                file.write(data)
            os.setxattr(path, "user.note", b"of the second user")
            os.chown(path, -1, TEAM)
            setfacl(path, f"u:{CAROL.uid}:rw", f"u:{SECOND.uid}:rw", f"u:{OWNER.uid}:r")
            os.chmod(path, mode)

    as_user(SECOND, work)
    if os.geteuid() == 0:
        project.look()


@pytest.mark.parametrize("when", ["before", "between plan and change"])
@pytest.mark.parametrize(("kind", "restorer"), by_turns(SHARED, 1))
def test_a_second_user_who_swaps_a_file_is_handed_nothing(place, kind, restorer, when, monkeypatch):
    for op in DISPLACED:
        if when != "before" and (op.startswith("continue") or op.startswith("abort")):
            continue  # nothing is asked there; the swap before is one between the plan and its change
        inner = place / op.replace(" ", "-")
        inner.mkdir()
        project = Project(inner, kind, restorer)
        project.make(b"then")
        there = b"then" if op == "undo" else b"now"
        if when == "before":
            mode = 0o664 if op in ("content", "abort after naming", "continue after naming") else None
            if mode is None and restorer == "owner":
                project.paths.pop(0)  # one that he cannot read would be refused
            _, (kept, incomplete) = do(project, op, between=lambda project=project, there=there, mode=mode: swap(project, there, mode))
        else:
            with waiting(lambda project=project, there=there: swap(project, there)) as go:
                _, (kept, incomplete) = do(project, op, between=lambda go=go: edit_before_execution(monkeypatch, go))
                monkeypatch.undo()
        access, contents, private = project.access(), project.contents(), []
        for name in access:
            if access[name].uid == SECOND.uid:
                assert contents[name] == there, (op, name)  # his own file is left alone, and named
                assert name in kept or op == "abort", (op, name)
            elif not op.startswith("abort"):
                assert contents[name] == (b"now" if op == "undo" else b"then")
                assert access[name] == (project.user.uid, access[name].gid, access[name].mode & 0o600, b"", ()), (op, name)
                assert name in kept and incomplete, (op, kept)
                private.append(project.root / name)
        if op.startswith("abort"):
            for who, name, _ in project.who_gained():  # his file comes back as who restores makes a new one
                assert access[name].gid in (who.gid, *who.groups), (op, who, name)
        else:
            assert len(private) >= len(access) - 1, (op, kept)  # one that its own owner cannot read is left alone
        assert set(rights(set(PEOPLE) - {project.user}, private).values()) <= {""}, op
        told(kind, restorer, f"{op}, swapped {when}", "who restores, 0600 at most, named" if private else "as before")
        shutil.rmtree(inner)


@pytest.mark.parametrize("restorer", ["root", "owner"])
@pytest.mark.parametrize("trick", ["set-gid", "default ACL"])
def test_a_second_users_directory_gives_a_new_file_neither_group_nor_acl(place, restorer, trick):
    """SECOND moves a directory away, and makes one of that name which hands what is created in it to him."""
    project = Project(place, "own", restorer)
    os.chmod(project.root, 0o777)
    as_user(OWNER, lambda: plant(project.root, {"d/secret": Mode(0o640, b"s"), "d/sub/secret": Mode(0o640, b"s"), "d/sub": Dir(0o750), "d": Dir(0o777)}))
    one = project.save()

    def move():
        os.umask(0)
        os.rename(project.root / "d", project.root / "away")
        os.mkdir(project.root / "d", 0o777)
        if trick == "set-gid":
            os.chown(project.root / "d", -1, SECOND.gid)
            os.chmod(project.root / "d", 0o2777)
        else:
            setfacl(project.root / "d", f"d:u:{SECOND.uid}:rwx")

    as_user(SECOND, move)
    scope = [b"d"]
    project.work(lambda workspace: workspace.restore(one, scope).op)
    secrets = [project.root / "d/secret", project.root / "d/sub/secret"]
    assert [path.read_bytes() for path in secrets] == [b"s", b"s"]
    for path in (*secrets, project.root / "d/sub"):
        status = os.stat(path)
        assert (status.st_uid, status.st_gid, acl_of(path)) == (OWNER.uid, OWNER.gid, b""), path
    os.chmod(project.root / "d/sub", 0o755)
    assert set(rights([SECOND], secrets).values()) == {""}


@pytest.mark.parametrize("there", ["nothing", "the second user's file"])
def test_set_id_bits_of_a_manifest_are_on_no_restored_file(place, there):
    """Root restores what another user may have recorded."""
    project = Project(place, "set-gid", "root")
    as_user(OWNER, lambda: plant(project.root, {"tool": Mode(0o6755, b"#!/bin/sh\n"), "same": Mode(0o6755, b"#!/bin/sh\n")}))
    for name in ("tool", "same"):
        os.chown(project.root / name, 0, 0)
        os.chmod(project.root / name, 0o6755)
    one = project.save()
    for name in ("tool", "same"):
        os.unlink(project.root / name)
    if there != "nothing":
        as_user(SECOND, lambda: plant(project.root, {"tool": Mode(0o755, b"mine"), "same": Mode(0o700, b"#!/bin/sh\n")}))
    kept, _ = project.work(lambda workspace: report(workspace.restore(one)))
    tool, same = (os.stat(project.root / name) for name in ("tool", "same"))
    assert (stat.S_IMODE(tool.st_mode), tool.st_uid) == ((0o755, OWNER.uid) if there == "nothing" else (0o600, 0))
    assert (stat.S_IMODE(same.st_mode), same.st_uid) == (0o755, OWNER.uid if there == "nothing" else SECOND.uid)
    assert set(kept) == (set() if there == "nothing" else {"tool"})


def test_what_makes_a_program_powerful_is_not_copied(place):
    """File capabilities are attributes, too."""
    project = Project(place, "own", "root")
    as_user(OWNER, lambda: plant(project.root, {"tool": Mode(0o755, b"one")}))
    one = project.save()
    as_user(OWNER, lambda: (project.root / "tool").write_bytes(b"two"))
    os.setxattr(project.root / "tool", "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))  # cap_net_raw+ep
    project.work(lambda workspace: workspace.restore(one).op)
    assert os.listxattr(project.root / "tool") == []
