"""Files that a clone or an archive can bring and that take all memory, all time, or end protection: each small or sparse.

A bomb has a name, a way to plant it, the path by which a save names it ("" for one that is no fault) and a word that is said of it.
"""

import os
from typing import NamedTuple

from support.trees import plant

MOST_KIB = 500_000
"""Of address space, for `ulimit -v`: a save of a few files takes a quarter of it."""
GB = 1 << 30


class Bomb(NamedTuple):
    plant: object
    path: str
    word: str = ""


def limited(kib=MOST_KIB):
    """What is put before a command so that it can have that much address space and no more."""
    return ("/bin/sh", "-c", f'ulimit -v {kib}; exec "$@"', "sh")


def text(path, data):
    return lambda root: plant(root, {path: data})


def repeated(path, data, times):
    """As `text`: the file is not in the memory of every worker from the start."""
    return lambda root: plant(root, {path: data * times})


def sparse(path, size, before=b""):
    def make(root):
        plant(root, {path: before})
        os.truncate(root / path, size)

    return make


def link(path, target):
    return lambda root: os.symlink(target, root / path)


def fifo(path):
    return lambda root: os.mkfifo(root / path)


def _deep_rules(root):
    """Rules of 8 MiB in each of 6 levels: more in force than anybody writes."""
    place = root
    for level in range(6):
        place = place / "d"
        place.mkdir()
        with open(place / ".gitignore", "wb") as file:
            file.write(b"#%d\n" % level)
            file.truncate(8 << 20)


TOML = ".casrewind.toml"
PROJECTS = {
    "dotted key": Bomb(text(TOML, b"a." * 100_000 + b"a=1\n"), TOML, "64 KiB"),
    "dotted key of 60 KB": Bomb(text(TOML, b"a." * 30_000 + b"a=1\n"), TOML, "32 parts"),
    "quoted and spaced key": Bomb(text(TOML, b'"\\"x" \t. \'y\'.' * 5_000 + b"a=1\n"), TOML, "32 parts"),
    "long header": Bomb(text(TOML, b"[" + b"a." * 15_000 + b"a]\n" + b"x.y=1\n" * 5_000), TOML, "32 parts"),
    "key in a list": Bomb(text(TOML, b'ignore = ["""a"""", {' + b"a." * 30_000 + b"a=1}]\n"), TOML, "32 parts"),
    "deep list": Bomb(text(TOML, b"ignore = " + b"[" * 60_000), TOML, "unreadable"),
    "deep table": Bomb(text(TOML, b"a={" * 20_000), TOML, "unreadable"),
    "long number": Bomb(text(TOML, b"[capture]\nmax_file_size = 0x" + b"f" * 60_000), TOML, "max_file_size"),
    "list of long numbers": Bomb(text(TOML, b"[capture]\nmax_file_size = [0x" + b"f" * 60_000 + b"]"), TOML, "max_file_size"),
    "sparse settings": Bomb(sparse(TOML, 3 * GB), TOML, "64 KiB"),
    "settings that are a link": Bomb(link(TOML, "/dev/zero"), TOML, "link"),
    "settings that are a fifo": Bomb(fifo(TOML), TOML, "not a regular file"),
    "settings that are a directory": Bomb(text(TOML + "/x", b"x"), TOML, "not a regular file"),
    "binary settings": Bomb(text(TOML, bytes(range(256))), TOML, "cannot be read"),
    "unknown key": Bomb(text(TOML, b'ignored = ["x"]\n'), TOML, "'ignored'"),
    "wrong type": Bomb(text(TOML, b"ignore = 7\n"), TOML, "'ignore'"),
    "wrong section": Bomb(text(TOML, b"capture = 7\n"), TOML, "'capture'"),
    "30,000 unknown keys": Bomb(text(TOML, b"".join(b"%x=1\n" % n for n in range(9_000))), TOML, "more"),
}  # fmt: skip

RULES = {
    "sparse rules": Bomb(sparse(".gitignore", 3 * GB, b"*.o\n"), ".gitignore", "8 MiB"),
    "sparse own rules": Bomb(sparse("sub/.casrewindignore", 3 * GB), "sub/.casrewindignore", "8 MiB"),
    "four million rules": Bomb(repeated(".gitignore", b"a\n", 4 << 20), ".gitignore", "too many ignore rules"),
    "long rule": Bomb(text(".gitignore", b"*a" * 40_000 + b"\nx\n"), ".gitignore", "4 KiB"),
    "rules in force": Bomb(_deep_rules, "d/d/d/.gitignore", "too many ignore rules"),
    "many hostile rules": Bomb(text(".gitignore", b"".join(b"*%d?*a%d*b\n" % (n, n % 7) for n in range(15_000))), ".gitignore", "too many"),
    "hostile rules": Bomb(text(".gitignore", b"".join(b"*%d?*a%d*b\n" % (n, n % 7) for n in range(5_000))), ""),
    "rules that are a link": Bomb(link(".gitignore", "/dev/zero"), ""),
    "rules that are a fifo": Bomb(fifo(".gitignore"), ".gitignore", "special"),
    "sparse tag": Bomb(sparse("sub/CACHEDIR.TAG", 6 * GB, b"no tag"), ""),
    "tag that is a link": Bomb(link("CACHEDIR.TAG", "/dev/zero"), ""),
    "sparse exclude": Bomb(sparse(".git/info/exclude", 3 * GB), ".git/info/exclude", "8 MiB"),
    "exclude that is a link": Bomb(lambda root: (plant(root, {".git/HEAD": b""}), link(".git/info", "/dev")(root)), ""),
}  # fmt: skip


def _linked(root):
    """A worktree of a repository elsewhere, with the files of that in the size of a disk."""
    for name in ("commondir", "gitdir", "config.worktree", "config"):
        sparse(f".g/{name}", 3 * GB)(root)
    plant(root, {".git": b"gitdir: .g"})


REPOSITORIES = {
    "configuration that includes itself": Bomb(
        text(".git/config", b"[include]\npath=config\npath=config\n#" + b"x" * 900_000), ".git/config", "includes itself"
    ),
    "sparse configuration": Bomb(sparse(".git/config", 3 * GB), ".git/config", "1 MiB"),
    "excludes file of 3 GB": Bomb(
        lambda root: (text(".git/config", b"[core]\nexcludesFile=.git/big")(root), sparse(".git/big", 3 * GB)(root)),
        "(git's core.excludesFile)", "8 MiB",
    ),
    "sparse pointer": Bomb(sparse(".git", 3 * GB, b"gitdir: x"), ""),
    "pointer of many names": Bomb(text(".git", b"gitdir: " + b"a/" * 30_000), ""),
    "sparse files of a linked worktree": Bomb(_linked, ".git/config", "1 MiB"),
}  # fmt: skip

BOMBS = PROJECTS | RULES | REPOSITORIES
