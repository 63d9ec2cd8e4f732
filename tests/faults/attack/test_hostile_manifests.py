"""Checkpoints that no honest save would make: names that lead out, aliases of version control, trees that lie.

Whatever they say: an error of casrewind's own, nothing outside the root changed, `.git` byte for byte as it was, the
worktree unchanged, no restore left open.
"""

import os
import stat
import struct

import pytest
from blake3 import blake3

from casrewind.cli.main import main
from support import handmade_checkpoints, handmade_nodes
from support.handmade_checkpoints import chunk_list, chunked_row, dir_row, file_row, link_row, tree
from support.picture import differences, picture
from support.trees import Link, plant

PAYLOAD = b"owned\n"


def digest(data):
    return blake3(data).digest()


HFS = [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
EXT4 = [0xAD, 0x34F, 0x61C, 0x115F, 0x17B4, 0x180B, 0x180E, 0x200B, 0x2060, 0x2064, 0x3164, 0xFE00, 0xFE0F, 0xFFA0, 0xFFF0, 0x1BCA0, 0x1D173,
        0xE0001, 0xE0041, 0xE0100]  # fmt: skip
WHERE = [(".git", 2), (".hg", 1), (".jj", 3), (".svn", 0), ("git~1", 3)]

NAMES = [
    b"..",
    b".",
    b"",
    b"/",
    b"/etc",
    b"//etc",
    b"../escape",
    b"a/../escape",
    b"a/b",
    b"a//b",
    b"./a",
    b"a/",
    b"a/..",
    b"\0",
    b"a\0b",
    b"..\0",
    b"n" * 256,
    b"n" * 300,
    *(b".git", b".GIT", b".Git", b".giT", b".hg", b".HG", b".Hg", b".jj", b".JJ", b".svn", b".SVN", b".Svn"),
    *(b".git.", b".git ", b".git..", b".git. .", b".GIT. ", b".hg.", b".jj ", b".svn..", b".HG "),
    *(b".git::$INDEX_ALLOCATION", b".git:stream", b".GIT::$index_allocation", b".hg::$INDEX_ALLOCATION", b".svn:x"),
    *(
        b"git~1",
        b"GIT~1",
        b"Git~1",
        b"git~1.",
        b"git~1 ",
        b"GIT~1::$INDEX_ALLOCATION",
        b"hg~1",
        b"HG~1",
        b"jj~1",
        b"SVN~1",
    ),
    *(f".g{chr(point)}it".encode() for point in HFS[:2]),
    *(
        text.encode()
        for text in ("\ufeff.git", ".git\u200f", "\u200c.hg", ".j\u200dj", ".\u017fvn", "g\u200cit~1", ".gi\u202et .")
    ),
    # a backslash is a separator to Windows, and to whoever reads this file system from there
    *(b".git\\config", b"a\\.git\\hooks", b"..\\.GIT", b".git\\", b"GIT~1\\config", b".git. .\\x", b".hg\\hgrc"),
    # capitals, compatibility forms
    *(
        text.encode()
        for text in (".g\u0131t", "g\u0131t~1", "\uff0egit", "\u2024git", ".git\uff0e", ".git\uff1astream", ".git\uff3cconfig")
    ),
    *(text.encode() for text in (".\uff47\uff49\uff54", ".\uff27\uff29\uff34", ".\uff48\uff47", ".\U0001d420it", ".s\u1d5bn", "git\uff5e1")),
    "n\u0301".encode() * 86,  # 258 bytes, 172 characters
]
TWINS = [
    (name[:at] + chr(point) + name[at:]).encode()
    for number, point in enumerate([*HFS[2:], *EXT4])
    for name, at in [WHERE[number % len(WHERE)]]
]


def ids(names):
    return [ascii(name.decode("utf-8", "replace"))[1:-1][:40] or "empty" for name in names]


@pytest.fixture
def arena(tmp_path, root, home, workspace, monkeypatch, capsys):
    """A project with version control, something outside of it, and the command, run in this process."""
    plant(root, {"keep": b"k", "sub/file": b"s", "l": Link("../outside")})
    plant(root, {".git/config": b"[core]\n", ".git/hooks/pre-commit": b"#!", "sub/.git/config": b"[nested]\n"})
    plant(tmp_path / "outside", {"file": b"theirs", "sub/x": b"theirs"})
    workspace.save()
    for name, value in (("HOME", home), ("CASREWIND_HOME", home / "data")):
        monkeypatch.setenv(name, str(value))
    return Arena(tmp_path, root, workspace, capsys)


class Arena:
    def __init__(self, top, root, workspace, capsys):
        self.top, self.root, self.workspace, self._capsys = top, root, workspace, capsys
        self.forger = handmade_checkpoints.Forger(workspace)
        self.out = top / "out"
        self.before = self.look()

    def look(self):
        """Everything but the store: the project with inodes and times, and everything around it."""
        return picture(self.top, mtimes=True, inodes=True, skip=(b"home", b"out"))

    def run(self, *arguments):
        code = main(["-C", str(self.root), *arguments])
        said = self._capsys.readouterr()
        assert code not in (1, 2, 70), (code, said)
        assert "Traceback" not in said.err
        return code, said

    def refused(self, point, verbs=("restore", "dry", "to", "show", "diff"), codes=(14, 20)):
        """Every verb refuses the checkpoint, and nothing has changed."""
        commands = {
            "restore": ("restore", point.id, "--yes"),
            "dry": ("restore", point.id, "--dry-run"),
            "to": ("restore", point.id, "--to", str(self.out)),
            "show": ("show", point.id),
            "diff": ("diff", point.id, "--patch"),
        }
        for verb in verbs:
            code, said = self.run(*commands[verb])
            assert code in codes, (verb, code, said)
            assert said.err.startswith("casrewind: "), said
        self.unchanged()

    def unchanged(self):
        assert differences(self.before, self.look()) == {}
        assert not self.out.exists() or not any(self.out.iterdir())
        assert not self.workspace.is_interrupted()


def test_how_many_spellings_there_are():
    every = [*NAMES, *TWINS]
    assert len(set(every)) == len(every) > 110
    print(f"{len(every)} hostile names; {len(NAMES)} of them at the top and below a directory, as file, directory and link")


@pytest.mark.parametrize("name", NAMES, ids=ids(NAMES))
def test_a_hostile_name_is_refused(arena, name):
    inner = tree(file_row(b"x", digest(PAYLOAD), len(PAYLOAD)))
    for shape in (
        file_row(name, digest(PAYLOAD), len(PAYLOAD)),
        dir_row(name, digest(inner)),
        link_row(name, b"../outside"),
    ):
        arena.refused(arena.forger.publish(tree(shape), inner, PAYLOAD), verbs=("restore", "show"))
        below = tree(shape)
        arena.refused(
            arena.forger.publish(tree(dir_row(b"sub", digest(below))), below, inner, PAYLOAD), verbs=("restore", "to")
        )


@pytest.mark.parametrize("number", range(len(TWINS)), ids=ids(TWINS))
def test_a_twin_with_a_character_that_a_file_system_leaves_out_is_refused(arena, number):
    """As one kind of entry each, in turn."""
    name, inner = TWINS[number], tree()
    shape = (file_row(name, digest(PAYLOAD), len(PAYLOAD)), dir_row(name, digest(inner)), link_row(name, b"../outside"))[number % 3]
    arena.refused(arena.forger.publish(tree(shape), inner, PAYLOAD), verbs=("restore", "to"))


@pytest.mark.parametrize("depth", [1, 2, 5, 40])
@pytest.mark.parametrize("name", [b"..", b".", b"", b".git", b"..\\.git", b"n" * 256], ids=["up", "here", "empty", "git", "windows", "long"])
def test_a_hostile_name_is_refused_however_deep_it_stands(arena, name, depth):
    blobs = [tree(file_row(name, digest(PAYLOAD), len(PAYLOAD)))]
    for _ in range(depth):
        blobs.append(tree(dir_row(b"sub", digest(blobs[-1]))))
    arena.refused(arena.forger.publish(blobs[-1], *blobs, PAYLOAD), verbs=("restore",))


@pytest.mark.parametrize("above", [file_row(b"l", digest(PAYLOAD), len(PAYLOAD)), link_row(b"l", b"../outside")], ids=["file", "link"])
@pytest.mark.parametrize("name", [b"l/file", b"l/sub/x", b"l/.."])
def test_a_path_beneath_a_file_or_a_link_is_refused(arena, above, name):
    arena.refused(arena.forger.publish(tree(above, file_row(name, digest(PAYLOAD), len(PAYLOAD))), PAYLOAD), verbs=("restore", "to"))


def test_every_verb_refuses(arena):
    for name in (b"..", b".git", b"a/../b"):
        arena.refused(arena.forger.publish(tree(file_row(name, digest(PAYLOAD), len(PAYLOAD))), PAYLOAD))


def test_names_that_look_odd_but_are_harmless_are_restored(arena):
    """The other side: the validator refuses no name that may be."""
    names = [
        b"...",
        b"..a",
        b"a..",
        b" ",
        b"-rf",
        b"a\nb",
        b"\xff\xfe",
        b"a\\..\\b",
        b".gitignore2",
        b".github",
        b"git",
        b"git~2",
        b"gitt~1",
        b"CON",
        b"n" * 255,
        b".g",
        b"a:b",
        "\u200c".encode(),
        b"~",
        b"*",
        b"\x1b[2J",
    ]
    point = arena.forger.publish(
        tree(*(file_row(name, digest(PAYLOAD), len(PAYLOAD)) for name in sorted(names))), PAYLOAD
    )
    code, _ = arena.run("restore", point.id, "--to", str(arena.out))
    assert code == 0
    assert sorted(os.listdir(os.fsencode(arena.out))) == sorted(names)


ONE = file_row(b"a", digest(PAYLOAD), len(PAYLOAD))
TWO = file_row(b"b", digest(PAYLOAD), len(PAYLOAD))

BROKEN_TREES = {
    "names out of order": tree(TWO, ONE),
    "a name twice": tree(ONE, ONE),
    "a name as file and directory": tree(ONE, dir_row(b"a", digest(tree()))),
    "a name as link and directory": tree(link_row(b"a", b"../outside"), dir_row(b"a", digest(tree(ONE)))),
    "a name as directory and link": tree(dir_row(b"a", digest(tree(ONE))), link_row(b"a", b"../outside")),
    "a name as link and file": tree(link_row(b"a", b"../outside/file"), ONE),
    "kind 0": tree(handmade_checkpoints.row(0, b"a", bytes(80))),
    "kind 6": tree(handmade_checkpoints.row(6, b"a", bytes(80))),
    "kind 255": tree(handmade_checkpoints.row(255, b"a", bytes(80))),
    "more entries than there are": tree(ONE, count=2),
    "four thousand million entries": tree(ONE, count=0xFFFFFFFF),
    "four thousand million entries and no bytes": tree(count=0xFFFFFFFF),
    "fewer entries than there are": tree(ONE, TWO, count=1),
    "no entries but bytes": tree(ONE, count=0),
    "an entry cut short": tree(ONE)[:-1],
    "an entry cut in its name": tree(handmade_checkpoints.row(1, b"a" * 200, b""))[:20],
    "a head cut short": b"CRT1\x01",
    "nothing at all": b"",
    "another magic": b"CRT2" + tree(ONE)[4:],
    "a link to nothing": tree(link_row(b"a", b"")),
    "a link with NUL": tree(link_row(b"a", b"x\0y")),
    "a link cut short": tree(handmade_checkpoints.row(4, b"a", struct.pack("<H", 500) + b"x")),
    "a link longer than any path": tree(link_row(b"a", b"x" * 60_000)),
    "a name longer than the entry": tree(struct.pack("<BBH", 1, 200, 0o644) + b"a"),
}


@pytest.mark.parametrize("what", BROKEN_TREES)
def test_a_broken_tree_is_refused(arena, what):
    data = BROKEN_TREES[what]
    arena.refused(arena.forger.publish(data, PAYLOAD, tree()), codes=(20,))
    above = tree(dir_row(b"sub", digest(data)))
    arena.refused(arena.forger.publish(above, data, PAYLOAD, tree()), verbs=("restore", "to"), codes=(20,))


@pytest.mark.parametrize("what", handmade_nodes.NODES)
def test_nodes_that_make_no_sense_are_refused_and_named(arena, what):
    """At the root and below; and a store with them is swept and looked through all the same."""
    top = handmade_nodes.NODES[what](lambda data: arena.forger.blobs(data)[0])
    arena.refused(arena.forger.publish(tree(dir_row(b"sub", top))), codes=(20,))
    at_the_root = arena.forger.publish(top)
    arena.refused(at_the_root, codes=(20,))
    code, said = arena.run("verify")
    assert code == 20 and at_the_root.id in said.out + said.err
    for command in (("gc", "--max-count", "9"), ("du",), ("log", "a"), ("verify", "--quick")):
        assert arena.run(*command)[0] in (0, 3, 15, 20)
    arena.unchanged()


def test_a_blob_that_is_no_tree_is_no_tree(arena):
    for data in (PAYLOAD, b"CRC1" + bytes(40), handmade_checkpoints.plan()):
        arena.refused(arena.forger.publish(digest(data), data), codes=(20,))
        arena.refused(arena.forger.publish(tree(dir_row(b"sub", digest(data))), data), codes=(20,))


def test_a_tree_that_is_nowhere(arena):
    arena.refused(arena.forger.publish(digest(b"nowhere")), codes=(20,))
    arena.refused(arena.forger.publish(tree(dir_row(b"sub", digest(b"nowhere")))), codes=(20,))


def test_a_domain_that_is_none(arena):
    for domain in (b"", b"\0" * 7, digest(b"nowhere"), tree(), b"\x04\0\x05\0\0\0abcde"):
        point = arena.forger.publish(tree(ONE), PAYLOAD, domain=domain)
        arena.refused(point, verbs=("restore", "dry", "show"), codes=(20,))


BIG = bytes(range(256)) * 64
FIRST, SECOND = BIG[:9000], BIG[9000:]

FILES = {
    "content that is nowhere": (file_row(b"a", digest(b"nowhere"), 7), ()),
    "a size that is not the content's": (file_row(b"a", digest(PAYLOAD), 1), (PAYLOAD,)),
    "chunks that are nowhere": (chunked_row(b"a", digest(BIG), len(BIG), digest(b"nowhere")), ()),
    "a chunk list that is none": (chunked_row(b"a", digest(BIG), len(BIG), digest(PAYLOAD)), (PAYLOAD,)),
}


def with_list(node, *more, whole=BIG, size=len(BIG)):
    return chunked_row(b"a", digest(whole), size, digest(node)), (node, *more)


FILES |= {
    "a chunk that is nowhere": with_list(chunk_list((digest(FIRST), len(FIRST)), (digest(b"nowhere"), 7)), FIRST),
    "chunk lengths that are wrong": with_list(chunk_list((digest(FIRST), 1), (digest(SECOND), 2)), FIRST, SECOND),
    "chunks in another order": with_list(
        chunk_list((digest(SECOND), len(SECOND)), (digest(FIRST), len(FIRST))), FIRST, SECOND
    ),
    "a chunk too few": with_list(chunk_list((digest(FIRST), len(FIRST))), FIRST, SECOND),
    "the digest of other content": with_list(
        chunk_list((digest(FIRST), len(FIRST)), (digest(SECOND), len(SECOND))), FIRST, SECOND, whole=b"other"
    ),
    "a size that is not the chunks'": with_list(
        chunk_list((digest(FIRST), len(FIRST)), (digest(SECOND), len(SECOND))), FIRST, SECOND, size=5
    ),
    "more chunks than there are": with_list(chunk_list((digest(FIRST), len(FIRST)), count=3), FIRST),
    "four thousand million chunks": with_list(chunk_list((digest(FIRST), len(FIRST)), count=0xFFFFFFFF), FIRST),
    "a list of many levels": with_list(chunk_list((digest(FIRST), len(FIRST)), level=200), FIRST),
    "levels out of order": with_list(chunk_list((digest(chunk_list(level=3)), 5), level=1), chunk_list(level=3)),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_does_not_come_together_is_refused(arena, what):
    row, blobs = FILES[what]
    arena.refused(arena.forger.publish(tree(row), *blobs), verbs=("restore", "to"), codes=(20,))


def test_a_file_larger_than_any_disk_is_refused(arena):
    row, blobs = with_list(chunk_list((digest(FIRST), len(FIRST))), FIRST, size=1 << 62)
    arena.refused(arena.forger.publish(tree(row), *blobs), verbs=("restore", "to"), codes=(13, 20))


def nested(levels):
    """A tree of so many levels, every blob of it, built from the bottom up."""
    blobs = [tree(file_row(b"bottom", digest(PAYLOAD), len(PAYLOAD)))]
    for _ in range(levels - 1):
        blobs.append(tree(dir_row(b"d", digest(blobs[-1]))))
    return blobs


def test_three_thousand_levels_are_refused(arena):
    blobs = nested(3000)
    arena.refused(arena.forger.publish(blobs[-1], *blobs, PAYLOAD), codes=(14,))


@pytest.mark.parametrize("levels", [11, pytest.param(14, marks=pytest.mark.long)])
def test_a_small_tree_that_unfolds_into_many_paths_writes_nothing_when_its_content_is_missing(arena, levels):
    """Each directory holds the next one twice: eleven blobs are some 6,000 paths, fourteen some 49,000."""
    blobs = [tree(file_row(b"x", digest(b"nowhere"), 7))]
    for _ in range(levels):
        blobs.append(tree(dir_row(b"a", digest(blobs[-1])), dir_row(b"b", digest(blobs[-1]))))
    arena.refused(arena.forger.publish(blobs[-1], *blobs), verbs=("to",), codes=(20,))


def test_special_mode_bits_are_not_restored(arena):
    row = file_row(b"a", digest(PAYLOAD), len(PAYLOAD), mode=0o7755)
    sub = dir_row(b"d", digest(tree()), mode=0o7777)
    point = arena.forger.publish(tree(row, sub), PAYLOAD, tree())
    code, _ = arena.run("restore", point.id, "--to", str(arena.out))
    assert code == 0
    assert stat.S_IMODE(os.stat(arena.out / "a").st_mode) == 0o755
    assert stat.S_IMODE(os.stat(arena.out / "d").st_mode) == 0o777


def test_a_link_to_outside_comes_where_a_directory_is_and_goes_again(arena):
    """As a link entry in one checkpoint, as a directory in another: nothing is ever written or removed through it."""
    inner = tree(file_row(b"file", digest(PAYLOAD), len(PAYLOAD)), dir_row(b"sub", digest(tree())))
    as_link = arena.forger.publish(tree(link_row(b"l", b"../outside"), link_row(b"sub", b"../outside")))
    as_directory = arena.forger.publish(
        tree(dir_row(b"l", digest(inner)), dir_row(b"sub", digest(inner))), inner, tree(), PAYLOAD
    )
    outside = picture(arena.top / "outside", mtimes=True, inodes=True)
    git = picture(arena.root / ".git", mtimes=True, inodes=True)
    for point in (as_directory, as_link, as_directory, as_link):
        code, _ = arena.run("restore", point.id, "--yes")
        assert code in (0, 14)  # 14: sub holds a .git that no checkpoint has, so it cannot become a link
        assert picture(arena.top / "outside", mtimes=True, inodes=True) == outside
        assert picture(arena.root / ".git", mtimes=True, inodes=True) == git
        assert (arena.root / "sub/.git/config").read_bytes() == b"[nested]\n"
    assert (arena.root / "l").is_dir()


def test_a_checkpoint_of_another_root_is_refused(arena):
    point = arena.forger.publish(tree(ONE), PAYLOAD, worktree=bytes(16), root=b"/elsewhere")
    arena.refused(point, verbs=("restore", "dry"), codes=(14,))


def test_purged_paths_are_named_and_never_touched(arena):
    row = handmade_checkpoints.row(handmade_checkpoints.PURGED, b"keep", struct.pack("<Q", 1))
    point = arena.forger.publish(tree(row))
    code, said = arena.run("restore", point.id, "--yes")
    assert code == 3
    assert "keep" in said.out + said.err
    assert (arena.root / "keep").read_bytes() == b"k"
    code, said = arena.run("restore", point.id, "--to", str(arena.out))
    assert code == 3
    assert not any(arena.out.iterdir())
