"""Our reading of git's configuration against git's own."""

import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from casrewind.gitignore import gitconfig
from casrewind.gitignore.gitconfig import GitSettings, find_doubts, read_git_settings

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with")


class Place:
    """A home, a repository and the environment that both readers are given."""

    def __init__(self, root):
        self.root = root
        self.home = root / "home"
        self.repository = root / "work" / "project"
        self.git_dir = self.repository / ".git"
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
        self.home.mkdir()
        (self.git_dir / "objects").mkdir(parents=True)
        (self.git_dir / "refs").mkdir()
        (self.git_dir / "HEAD").write_text("ref: refs/heads/main\n")
        self.write(".git/config", b"")

    def write(self, name, data):
        path = self.root / name[1:] if name.startswith("/") else self.home / name[2:] if name.startswith("~/") else self.repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.replace(b"@ROOT@", os.fsencode(self.root)))

    def ours(self):
        """Our answer, whoever has named the file."""
        return read_git_settings(str(self.git_dir), str(self.git_dir), self.environ)._replace(is_own=False)

    def git(self, *words, codes=(0, 1)):
        done = subprocess.run(["git", *words], cwd=self.repository, env=self.environ, capture_output=True, check=False)
        assert done.returncode in codes, done.stderr
        return done.stdout if done.returncode == 0 else None

    def theirs(self):
        """git's answer, with git's documented default for the file."""
        path = self.git("config", "-z", "--type=path", "--get", "core.excludesFile")
        case = self.git("config", "-z", "--type=bool", "--get", "core.ignoreCase")
        base = self.environ.get("XDG_CONFIG_HOME") or os.path.join(self.environ["HOME"], ".config")
        file = os.path.join(base, "git", "ignore") if path is None else os.fsdecode(path[:-1])
        return GitSettings(file or None, case == b"true\0")


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


FILES = {
    "nothing": {},
    "repository": {".git/config": b"[core]\n\texcludesFile = /r\n\tignoreCase = true\n"},
    "small letters": {".git/config": b"[CORE]\nEXCLUDESFILE=/r\nignorecase=TRUE"},
    "last wins": {".git/config": b"[core]\nignoreCase\nexcludesfile=/1\n[core] excludesfile=/2\nignorecase=off\n"},
    "bare key": {".git/config": b"[core]\nignoreCase\n"},
    "bare key and comment on the next line": {".git/config": b"[core]\nignoreCase \t\n;x"},
    "yes": {".git/config": b"[core]\nignorecase=yEs"},
    "number": {".git/config": b"[core]\nignorecase=2"},
    "zero": {".git/config": b"[core]\nignorecase=1\nignorecase=0"},
    "hexadecimal": {".git/config": b"[core]\nignorecase=0x0"},
    "unit": {".git/config": b"[core]\nignorecase = -1k"},
    "octal": {".git/config": b"[core]\nignorecase = 010"},
    "empty boolean": {".git/config": b"[core]\nignorecase=1\nignorecase=\n"},
    "user": {"~/.gitconfig": b"[core]\nexcludesFile=/u\nignoreCase=1"},
    "user and xdg": {"~/.gitconfig": b"[core]\nexcludesFile=/u", "~/.config/git/config": b"[core]\nexcludesFile=/x\nignoreCase=1"},
    "repository over user": {"~/.gitconfig": b"[core]\nexcludesFile=/u\nignorecase=1", ".git/config": b"[core]\nignoreCase=no\n"},
    "tilde": {"~/.gitconfig": b"[core]\nexcludesFile = ~/my ignores\n"},
    "tilde alone": {"~/.gitconfig": b"[core]\nexcludesFile = ~\n"},
    "tilde of a user": {"~/.gitconfig": b"[core]\nexcludesFile = ~root/ignore\n"},
    "relative": {".git/config": b"[core]\nexcludesFile = tools/ignore\n"},
    "empty file name": {"~/.gitconfig": b"[core]\nexcludesFile=/u", ".git/config": b"[core]\nexcludesFile=\n"},
    "quotes": {".git/config": b'[core]\nexcludesFile = " /a #b"  ; said\n'},
    "quotes inside": {".git/config": b'[core]\nexcludesFile = /a" # "b\n'},
    "escapes": {".git/config": b'[core]\nexcludesFile = "/a\\"b\\\\c\\td"\n'},
    "spaces inside": {".git/config": b"[core]\nexcludesFile =   /a   b  \n"},
    "comment": {".git/config": b"# x\n[core] # y\nexcludesFile=/a#b\n;[core]\n"},
    "comment with a backslash": {".git/config": b"[core]\nexcludesFile=/a ; b\\\nignorecase=1\n"},
    "continued": {".git/config": b"[core]\nexcludesFile = /a\\\n/b\\\n\n"},
    "carriage returns": {".git/config": b"[core]\r\n\texcludesFile = /a\r\n\tignoreCase = true\r\n"},
    "byte order mark": {".git/config": b"\xef\xbb\xbf[core]\nexcludesFile=/a\n"},
    "one line": {".git/config": b"[core] excludesFile=/a"},
    "subsection is another section": {".git/config": b'[core "x"]\nexcludesFile=/a\n[core.y]\nexcludesfile=/b\n'},
    "not utf-8": {".git/config": b"[core]\nexcludesFile=/\xff\xe9\n"},
    "include": {".git/config": b"[core]\nexcludesFile=/a\n[include]\npath=more\n", ".git/more": b"[core]\nexcludesFile=/b\n"},
    "include in front": {".git/config": b"[include]\npath=more\n[core]\nexcludesFile=/a\n", ".git/more": b"[core]\nexcludesFile=/b\n"},
    "include of nothing": {".git/config": b"[include]\npath=more\n[core]\nexcludesFile=/a\n"},
    "include up": {".git/config": b"[include]\npath=../x/y\n", "x/y": b"[include]\npath=z\n", "x/z": b"[core]\nignorecase\n"},
    "include at home": {".git/config": b"[include]\npath=~/y\n", "~/y": b"[core]\nignorecase=1\n"},
    "include absolute": {"~/.gitconfig": b"[include]\npath=@ROOT@/y\n", "/y": b"[core]\nignorecase=1\n"},
    "gitdir directory": {"~/.gitconfig": b'[includeIf "gitdir:@ROOT@/work/"]\npath=y\n', "~/y": b"[core]\nexcludesfile=/y\n"},
    "gitdir elsewhere": {"~/.gitconfig": b'[includeIf "gitdir:@ROOT@/play/"]\npath=y\n', "~/y": b"[core]\nexcludesfile=/y\n"},
    "gitdir exact": {"~/.gitconfig": b'[includeIf "gitdir:@ROOT@/work/project/.git"]\npath=y\n', "~/y": b"[core]\nignorecase\n"},
    "gitdir not exact": {"~/.gitconfig": b'[includeIf "gitdir:@ROOT@/work/project"]\npath=y\n', "~/y": b"[core]\nignorecase\n"},
    "gitdir relative": {"~/.gitconfig": b'[includeIf "gitdir:project/"]\npath=y\n', "~/y": b"[core]\nignorecase\n"},
    "gitdir glob": {"~/.gitconfig": b'[includeIf "gitdir:**/wo*/pr?ject/.git"]\npath=y\n', "~/y": b"[core]\nignorecase\n"},
    "gitdir star": {"~/.gitconfig": b'[includeIf "gitdir:work/*"]\npath=y\n', "~/y": b"[core]\nignorecase\n"},
    "gitdir home": {"~/.gitconfig": b'[includeIf "gitdir:~/"]\npath=y\n', "~/y": b"[core]\nignorecase\n"},
    "gitdir beside": {".git/config": b'[includeIf "gitdir:./"]\npath=y\n', ".git/y": b"[core]\nignorecase\n"},
    "gitdir beside above": {".git/config": b'[include]\npath=../../y\n', "/work/y": b'[includeIf "gitdir:./"]\npath=z\n',
                            "/work/z": b"[core]\nignorecase\n"},
    "gitdir in the wrong case": {"~/.gitconfig": b'[includeIf "gitdir:PROJECT/"]\npath=y\n', "~/y": b"[core]\nignorecase\n"},
    "gitdir folding": {"~/.gitconfig": b'[includeIf "gitdir/i:PROJECT/"]\npath=y\n', "~/y": b"[core]\nignorecase\n"},
    "gitdir folding beside": {".git/config": b'[includeIf "gitdir/i:./"]\npath=y\n', ".git/y": b"[core]\nignorecase\n"},
    "includeIf in small letters": {"~/.gitconfig": b'[includeif "gitdir:project/"]\nPATH=y\n', "~/y": b"[core]\nignorecase\n"},
    "a condition nobody knows": {"~/.gitconfig": b'[includeIf "moon:full"]\npath=y\n', "~/y": b"[core]\nignorecase\n"},
    "no condition": {"~/.gitconfig": b"[includeIf]\npath=y\n", "~/y": b"[core]\nignorecase\n"},
    "worktree configuration": {".git/config": b"[core]\nrepositoryformatversion=1\n[extensions]\nworktreeConfig\n",
                               ".git/config.worktree": b"[core]\nexcludesFile=/w\n"},
    "worktree configuration without a version": {".git/config": b"[extensions]\nworktreeConfig\n",
                                                 ".git/config.worktree": b"[core]\nexcludesFile=/w\n"},
    "worktree configuration off": {".git/config": b"[core]\nexcludesFile=/a\n", ".git/config.worktree": b"[core]\nexcludesFile=/w\n"},
    "worktree configuration in an include": {".git/config": b"[core]\nrepositoryformatversion=0\n[include]\npath=y\n", ".git/y": b"[extensions]\nworktreeConfig\n",
                                             ".git/config.worktree": b"[core]\nexcludesFile=/w\n"},
}  # fmt: skip


ON_MAIN = b'[includeIf "onbranch:main"]\npath=@ROOT@/more\n'
BY_REMOTE = b'[remote "origin"]\nurl=https://h.example/p\n[includeIf "hasconfig:remote.*.url:https://h.example/**"]\npath=@ROOT@/more\n'
SETS = b"[core]\nexcludesFile=/y\n"
DOUBTFUL = {
    "by branch": ({"~/.gitconfig": ON_MAIN, "/more": SETS}, ["onbranch:main excludesFile"]),
    "by remote": ({".git/config": BY_REMOTE, "/more": SETS}, ["hasconfig:remote.*.url:https://h.example/** excludesFile"]),
    "both settings": ({".git/config": ON_MAIN, "/more": SETS + b"ignoreCase\n"}, ["onbranch:main excludesFile", "onbranch:main ignoreCase"]),
    "further down": ({"~/.gitconfig": ON_MAIN, "/more": b"[include]\npath=y\n", "/y": SETS}, ["onbranch:main excludesFile"]),
    "below one that is understood": (
        {"~/.gitconfig": b'[includeIf "gitdir:project/"]\npath=y\n', "~/y": ON_MAIN, "/more": SETS}, ["onbranch:main excludesFile"],
    ),
    "another branch": ({"~/.gitconfig": ON_MAIN.replace(b"main", b"other"), "/more": SETS}, ["onbranch:other excludesFile"]),
    "a condition nobody knows": (
        {"~/.gitconfig": b'[includeIf "moon:full"]\npath=@ROOT@/more\n', "/more": SETS}, ["moon:full excludesFile"],
    ),
    "another setting": ({"~/.gitconfig": ON_MAIN, "/more": b"[user]\nname=x\n"}, []),
    "set for certain later": ({"~/.gitconfig": ON_MAIN, "/more": SETS, ".git/config": b"[core]\nexcludesFile=/r\n"}, []),
    "set for certain before": ({"~/.gitconfig": SETS + ON_MAIN, "/more": b"[core]\nexcludesFile=/z\n"}, ["onbranch:main excludesFile"]),
    "below one that does not hold": (
        {"~/.gitconfig": b'[includeIf "gitdir:elsewhere/"]\npath=y\n', "~/y": ON_MAIN, "/more": SETS}, [],
    ),
    "no file": ({"~/.gitconfig": ON_MAIN}, []),
    "no condition": ({"~/.gitconfig": b"[includeIf]\npath=@ROOT@/more\n", "/more": SETS}, []),
}  # fmt: skip


@needs_git
@pytest.mark.parametrize(("files", "doubts"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_where_git_may_read_something_else_there_is_a_doubt(place, files, doubts):
    for name, data in files.items():
        place.write(name, data)
    found = find_doubts(str(place.git_dir), str(place.git_dir), place.environ)
    assert [f"{doubt.condition} {doubt.setting.removeprefix('core.')}" for doubt in found] == doubts
    assert doubts or place.ours() == place.theirs()


def test_doubts_are_few_and_short(place):
    place.write("~/.gitconfig", b"".join(b'[includeIf "onbranch:%d%s"]\npath=@ROOT@/more\n' % (n, b"x" * 9000) for n in range(60)))
    place.write("/more", SETS)
    found = find_doubts(str(place.git_dir), str(place.git_dir), place.environ)
    assert len(found) == 3 and all(len(doubt.condition) == 100 for doubt in found)


@needs_git
@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_as_git_reads_it(place, files):
    for name, data in files.items():
        place.write(name, data)
    assert place.ours() == place.theirs()


@needs_git
@pytest.mark.parametrize(
    "environ",
    [
        {"XDG_CONFIG_HOME": "@/xdg"},
        {"XDG_CONFIG_HOME": ""},
        {"GIT_CONFIG_GLOBAL": "@/global"},
        {"GIT_CONFIG_GLOBAL": ""},
        {"GIT_CONFIG_GLOBAL": "/dev/null"},
        {"GIT_CONFIG_GLOBAL": "@/missing"},
        {"GIT_CONFIG_SYSTEM": "@/system"},
        {"GIT_CONFIG_SYSTEM": "@/system", "GIT_CONFIG_NOSYSTEM": "0"},
        {"GIT_CONFIG_SYSTEM": "@/system", "GIT_CONFIG_NOSYSTEM": ""},
        {"GIT_CONFIG_SYSTEM": "@/system", "GIT_CONFIG_NOSYSTEM": "off", "GIT_CONFIG_GLOBAL": ""},
        {"GIT_CONFIG_SYSTEM": "@/system", "GIT_CONFIG_NOSYSTEM": "yes", "GIT_CONFIG_GLOBAL": ""},
    ],
)
def test_the_environment_names_files(place, environ):
    place.write("~/.gitconfig", b"[core]\nexcludesFile=/user\n")
    place.write("~/.config/git/config", b"[core]\nexcludesFile=/default-xdg\nignoreCase=1\n")
    place.write("/xdg/git/config", b"[core]\nignoreCase=true\n")
    place.write("/global", b"[core]\nexcludesFile=/global\n")
    place.write("/system", b"[core]\nexcludesFile=/system\nignoreCase=true\n")
    place.environ |= {key: value.replace("@", str(place.root)) for key, value in environ.items()}
    assert place.ours() == place.theirs()


@needs_git
def test_a_linked_worktree_has_its_own_file(place):
    place.write(".git/config", b"[core]\nrepositoryformatversion=0\nexcludesFile=/common\n[extensions]\nworktreeConfig=true\n")
    place.write(".git/worktrees/w/config.worktree", b"[core]\nexcludesFile=/linked\n")
    place.write(".git/worktrees/w/HEAD", b"ref: refs/heads/w\n")
    place.write(".git/worktrees/w/commondir", b"../..\n")
    place.write(".git/worktrees/w/gitdir", b"@ROOT@/linked/.git\n")
    place.write("/linked/.git", b"gitdir: @ROOT@/work/project/.git/worktrees/w\n")
    linked = read_git_settings(str(place.git_dir / "worktrees" / "w"), str(place.git_dir), place.environ)
    assert linked.excludes_file == "/linked"
    assert place.git("-C", str(place.root / "linked"), "config", "core.excludesFile") == b"/linked\n"
    assert place.ours().excludes_file == "/common"


ALPHABET = [b"[core]", b"[core", b"]", b'[a "b"]', b'[a\t"B\\"c"]', b'[a "', b"[x.Y]", b"\n", b"\n", b"\n", b"\r\n", b" ", b"\t", b"\r", b"=",
            b" = ", b"key", b"Key-2", b"excludesFile", b"-", b"_", b"1", b"true", b'"', b'"', b"\\", b"\\\\", b"\\n", b"\\t", b'\\"', b"\\q",
            b"\\\n", b"#", b";", b"a b", b"\xff", b"\xef\xbb\xbf", b"\v", b"."]  # fmt: skip


@needs_git
def test_generated_files(place):
    """Key by key as `git config --list` gives them, up to where git gives up."""
    rng = random.Random(5)
    understood = 0
    for _ in range(int(os.environ.get("CASREWIND_GIT_CONFIGS", "400"))):
        whole = [b"[core]\nkey=", b"[core]\n"] if rng.random() < 0.7 else [b""]
        data = rng.choice(whole) + b"".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 14)))
        place.write("generated", data)
        words = ["git", "config", "-f", str(place.repository / "generated"), "-z", "--list"]
        done = subprocess.run(words, env=place.environ, capture_output=True, check=False)
        theirs = [tuple(entry.split(b"\n", 1)) for entry in done.stdout.split(b"\0")[:-1]]
        ours = [(section + name,) if value is None else (section + name, value) for section, name, value in gitconfig._parse_settings(data)]
        assert ours == theirs, data
        understood += len(ours)
    assert understood > 100


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[core]\nexcludesFile=/a\n[bad\nexcludesFile=/b\n", GitSettings("/a", False)),
        (b'[core]\nexcludesFile=/a\nexcludesFile="/b\n', GitSettings("/a", False)),
        (b"[core]\nexcludesFile=/a\nexcludesFile=/b\\q\n", GitSettings("/a", False)),
        (b"[core]\nexcludesFile=/a\n%\nignoreCase\n", GitSettings("/a", False)),
        (b"excludesFile=/a\n", GitSettings(None, False)),
        (b"[core]\nexcludesFile=/a\nexcludesFile\nignoreCase\n", GitSettings("/a", True)),
        (b"[core]\nignoreCase=1\nignoreCase=maybe\nexcludesFile=%(prefix)/x\n", GitSettings(None, True)),
        (b"[core]\nignoreCase=1\nignoreCase=99999999999\n", GitSettings(None, True)),
        (b"[core]\nexcludesFile=~nobody-has-this-name/x\n", GitSettings(None, False)),
        (b"[core]\nexcludesFile=~/x\n", GitSettings(None, False)),
        (bytes(range(256)) * 10, GitSettings(None, False)),
    ],
)
def test_what_was_understood_before_a_bad_line_counts(place, data, expected):
    place.write(".git/config", data)
    assert read_git_settings(str(place.git_dir), str(place.git_dir), {"GIT_CONFIG_NOSYSTEM": "1"})[:2] == expected[:2]


def test_a_bad_file_does_not_spoil_the_next(place):
    place.write("~/.gitconfig", b"[core]\nignoreCase=1\n[")
    place.write(".git/config", b"[core]\nexcludesFile=/a\n")
    assert place.ours() == GitSettings("/a", True)


def test_without_a_repository_the_users_files_count(place):
    place.write("~/.gitconfig", b'[core]\nexcludesFile=~/x\n[includeIf "gitdir:/"]\npath=y\n')
    place.write("~/y", b"[core]\nexcludesFile=/y\n")
    assert read_git_settings(None, None, place.environ) == GitSettings(str(place.home / "x"), False)


def test_nothing_known_at_all():
    assert read_git_settings(None, None, {"GIT_CONFIG_NOSYSTEM": "true"}) == GitSettings(None, False)


def test_a_fifo_or_directory_is_no_configuration(place):
    os.mkfifo(place.home / ".gitconfig")
    (place.home / ".config" / "git" / "config").mkdir(parents=True)
    place.write(".git/config", b"[core]\nignoreCase\n")
    assert place.ours().ignore_case is True


def test_files_that_include_themselves_end_at_once(place, monkeypatch):
    """Ten levels deep, a file that includes itself a hundred times over would be read 10^20 times."""
    opened = []
    monkeypatch.setattr(gitconfig.os, "open", counted(opened, os.open))
    place.write(".git/config", b"[include]\n" + b"path=config\n" * 100 + b"[core]\nignoreCase\n")
    found = place.ours()
    assert found.ignore_case is True
    assert [(refused.why, refused.is_own) for refused in found.refused] == [("it includes itself", True)]
    assert len(opened) <= 110


def counted(calls, function):
    def call(*arguments, **options):
        calls.append(arguments)
        return function(*arguments, **options)

    return call


def test_a_file_that_is_included_twice_is_read_twice_as_git_does(place):
    place.write("~/.gitconfig", b"[include]\npath=x\n[core]\nexcludesFile=/b\n[include]\npath=x\n")
    place.write("~/x", b"[core]\nexcludesFile=/a\n")
    assert place.ours().excludes_file == "/a"


def test_a_file_that_is_refused_leaves_what_was_read_before_it(place):
    place.write("~/.gitconfig", b"[core]\nexcludesFile=/mine\n")
    place.write(".git/config", b"[core]\nexcludesFile=/theirs\n#" + b"x" * (1 << 20))
    found = read_git_settings(str(place.git_dir), str(place.git_dir), place.environ)
    assert (found.excludes_file, found.is_own) == ("/mine", False)
    assert [refused.why for refused in found.refused] == ["more than 1 MiB"]


def test_who_names_the_excludes_file_is_told(place):
    place.write("~/.gitconfig", b"[core]\nexcludesFile=/mine\n")
    git = str(place.git_dir)
    place.write(".git/config", b"[core]\n")
    assert read_git_settings(git, git, place.environ).is_own is False
    place.write(".git/config", b"[include]\npath=more\n")
    place.write(".git/more", b"[core]\nexcludesFile=/theirs\n")
    assert read_git_settings(git, git, place.environ)[:3] == ("/theirs", False, True)


def _tree(place, levels):
    for level in range(levels):
        place.write(f".git/c{level}", b"[include]\n" + b"path=c%d\n" % (level + 1) * 9)
    return b"[include]\npath=c0\n"


BOMBS = {
    "includes that fan out": lambda place: _tree(place, 9),
    "a long section": lambda _: b'[a "' + b"x" * (1 << 19) + b'"]\n' + b"a\n" * 70_000,
    "many lines": lambda _: b"[a]\n" + b"a\n" * 500_000,
    "many conditions": lambda _: b'[includeIf "gitdir:**/x"]path=y\n' * 30_000,
    "long conditions": lambda _: (b'[includeIf "gitdir:' + b"*a" * 4_000 + b'"]path=y\n') * 100,
    "many users": lambda _: b"[core]\n" + b"".join(b"excludesFile=~no-%d/x\n" % n for n in range(40_000)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_no_configuration_takes_long(place, name):
    place.write(".git/config", BOMBS[name](place))
    began = time.process_time()
    found = place.ours()
    assert time.process_time() - began < 20, "an honest one takes a thousandth of a second"
    assert bool(found.refused) == (name != "a long section")
    assert all(refused.path.startswith(str(place.git_dir)) for refused in found.refused)


def test_a_repository_behind_a_link_is_known_by_either_path(place):
    (place.root / "link").symlink_to(place.root / "work")
    place.write("~/.gitconfig", b'[includeIf "gitdir:@ROOT@/link/"]\npath=y\n')
    place.write("~/y", b"[core]\nignoreCase\n")
    through = str(place.root / "link" / "project" / ".git")
    assert read_git_settings(through, through, place.environ).ignore_case is True
    assert place.ours().ignore_case is False


def test_on_macos_the_files_of_apple_s_git_and_of_homebrew_s_count_and_homebrew_s_wins(place, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    files = tuple(f"{place.root}{path}" for path in gitconfig._SYSTEM_FILES_OF_MACOS)
    monkeypatch.setattr(gitconfig, "_SYSTEM_FILES_OF_MACOS", files)
    del place.environ["GIT_CONFIG_NOSYSTEM"]
    place.write("/Applications/Xcode.app/Contents/Developer/usr/share/git-core/gitconfig", b"[core]\nexcludesFile = /xcode\nignoreCase\n")
    assert place.ours()[:2] == ("/xcode", True)
    place.write("/etc/gitconfig", b"[core]\nexcludesFile = /etc/ignore\n")
    assert place.ours()[:2] == ("/etc/ignore", True)
    place.write("/opt/homebrew/etc/gitconfig", b"[core]\nexcludesFile = /brew\n")
    assert place.ours()[:2] == ("/brew", True)
    place.write("~/.gitconfig", b"[core]\nexcludesFile = /own\n")
    assert place.ours()[:2] == ("/own", True)
    place.environ["GIT_CONFIG_NOSYSTEM"] = "1"
    assert place.ours()[:2] == ("/own", False)
