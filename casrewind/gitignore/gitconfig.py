"""Reads core.excludesFile and core.ignoreCase from git's configuration files, without running git.

The danger: configuration files belong to the user or come with a clone. A half-written file, a fifo, an include that
names itself or a huge file must not stop or delay a save. So nothing here raises. A file counts up to its first
malformed line, where git itself would stop. All files together have a cost limit: files beyond it are refused and
reported, and earlier settings remain.

The last value wins. Order: system file (on macOS, that of each git), the user's two files, repository, worktree. An include is
read at its position. Not supported: settings in the environment or on a command line, includes by branch or remote, and
`%(prefix)` paths. `find_doubts` names such an include, if it sets something for the ignore rules.
"""

import os
import stat
import sys
from collections.abc import Iterator, Mapping

from .. import fsio, locations
from .._typing import NamedTuple

_SYSTEM_FILES = ("/etc/gitconfig",)
_SYSTEM_FILES_OF_MACOS = (
    "/Library/Developer/CommandLineTools/usr/share/git-core/gitconfig",
    "/Applications/Xcode.app/Contents/Developer/usr/share/git-core/gitconfig",
    *_SYSTEM_FILES,
    "/usr/local/etc/gitconfig",
    "/opt/homebrew/etc/gitconfig",
)
"""Those of Apple's git, then those of Homebrew's on Intel and on Apple silicon. Nothing says which git a person runs: all count."""
# git has no such limits. Real files are far smaller. Every save reads these files: at the limits that costs a second or
# two.
_LARGEST_FILE = 1 << 20
_CONFIG_COST = 4 << 20  # cost limit of all files: their bytes, plus these amounts for each item
_A_FILE = _A_USER = 40 << 10
_A_LINE = 40
_A_CONDITION, _BYTE_OF_A_CONDITION = 4 << 10, 64
_MOST_NAMED = 3  # refused files reported, and doubts about a setting
_LONGEST_NAMED = 100  # bytes of a condition in a doubt

_SPACE = b" \t\r\n"
_NEWLINE, _QUOTE, _BACKSLASH, _OPEN, _CLOSE, _EQUALS = b'\n"\\[]='
_ESCAPES = {ord("t"): ord("\t"), ord("b"): ord("\b"), ord("n"): _NEWLINE, _BACKSLASH: _BACKSLASH, _QUOTE: _QUOTE}
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NAME = _LETTERS + b"0123456789-"
_CONDITIONS = frozenset({b"gitdir", b"gitdir/i"})
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class RefusedConfig(NamedTuple):
    """A configuration file without effect, and the reason. `is_own`: the repository's own configuration led to it."""

    path: str
    why: str
    is_own: bool


class GitSettings(NamedTuple):
    """The settings for the ignore rules. `is_own`: `excludes_file` (relative to the root) is set by the repository."""

    excludes_file: str | None
    ignore_case: bool
    is_own: bool = False
    refused: tuple[RefusedConfig, ...] = ()


class Doubt(NamedTuple):
    """A file at `path` includes another by a `condition` that is not understood, and that one sets `setting`."""

    path: str
    condition: str
    setting: str


def read_git_settings(git_dir: str | None, common_dir: str | None, environ: Mapping[str, str]) -> GitSettings:
    """The effective settings of the repository with these directories, or None for no repository."""
    reader = _ConfigReader(git_dir, environ)
    _read_all_files(reader, git_dir, common_dir, environ)
    if reader.excludes_file is None:
        own = _directory_of_user(environ)
        return GitSettings(own and os.path.join(own, "ignore"), reader.ignore_case, False, tuple(reader.refused))
    return GitSettings(reader.excludes_file or None, reader.ignore_case, reader.names_it, tuple(reader.refused))


def find_doubts(git_dir: str | None, common_dir: str | None, environ: Mapping[str, str]) -> list[Doubt]:
    """The includes by a condition that is not understood, if they would set something that no later line sets for certain."""
    reader = _ConfigReader(git_dir, environ, doubts={})
    _read_all_files(reader, git_dir, common_dir, environ)
    return [doubt for some in (reader.doubts or {}).values() for doubt in some]


def _directory_of_user(environ: Mapping[str, str]) -> str | None:
    home, base = environ.get("HOME"), environ.get("XDG_CONFIG_HOME")
    return os.path.join(base, "git") if base else None if home is None else os.path.join(home, ".config", "git")


def _system_files() -> tuple[str, ...]:
    return _SYSTEM_FILES_OF_MACOS if sys.platform == "darwin" else _SYSTEM_FILES


def _read_all_files(reader: "_ConfigReader", git_dir: str | None, common_dir: str | None, environ: Mapping[str, str]) -> None:
    own = _directory_of_user(environ)
    if not _parse_boolean(environ.get("GIT_CONFIG_NOSYSTEM", "").encode("utf-8", "surrogateescape")):
        named = environ.get("GIT_CONFIG_SYSTEM")
        for path in _system_files() if named is None else (named,):
            reader.read_with_includes(path)
    if "GIT_CONFIG_GLOBAL" in environ:
        reader.read_with_includes(environ["GIT_CONFIG_GLOBAL"])
    else:
        reader.read_with_includes(own and os.path.join(own, "config"))
        reader.read_with_includes(reader.expand("~/.gitconfig"))
    if common_dir is not None:
        reader.read_repository(git_dir, common_dir)


def is_bare(git_dir: str) -> bool:
    """True if a repository has no checkout of its own, by its own configuration. Raises nothing."""
    reader = _ConfigReader(git_dir, {})
    reader.read_repository(git_dir, git_dir)
    return reader.is_bare


class _ConfigReader:
    """The settings of the files read so far; a later file overrides an earlier one."""

    def __init__(self, git_dir: str | None, environ: Mapping[str, str], doubts: dict[str, list[Doubt]] | None = None) -> None:
        """`doubts`: {setting: the includes that may set it}; None = do not look for them."""
        self.doubts = doubts
        self._doubtful: tuple[str, str] | None = None  # what is read now counts only by this (file, condition)
        self.excludes_file: str | None = None
        self.ignore_case = False
        self.is_bare = False
        self.is_own = self.names_it = False  # now reading the repository's configuration; it set excludes_file
        self.refused: list[RefusedConfig] = []
        self.is_versioned = self.has_extension = False
        self._git_dirs = () if git_dir is None else (os.path.realpath(git_dir), os.path.abspath(git_dir))
        self._environ = environ
        self._left = _CONFIG_COST
        self._open: list[tuple[int, int]] = []  # files being read: (device, inode)

    def read_repository(self, git_dir: str | None, common_dir: str) -> None:
        """Read the repository's own files. As in git, an extension counts only with a repository format version, and not
        from an included file."""
        self.is_own = True
        self.read_with_includes(os.path.join(common_dir, "config"), is_repository=True)
        if git_dir is not None and self.is_versioned and self.has_extension:
            self.read_with_includes(os.path.join(git_dir, "config.worktree"))

    def read_with_includes(self, path: str | None, *, is_repository: bool = False) -> None:
        """Read a file with its includes, if it exists."""
        data, identity = _read_with_identity(path) if path else (b"", (0, 0))
        if not path or not data:
            return
        if len(data) > _LARGEST_FILE:
            self._note_refused_file(path, f"more than {_LARGEST_FILE >> 20} MiB")
            return
        if identity in self._open:
            self._note_refused_file(path, "it includes itself")
            return
        if not self._charge_or_refuse_file(path, _A_FILE + len(data) + _A_LINE * (data.count(b"\n") + data.count(b"["))):
            return
        self._open.append(identity)
        for section, name, value in _parse_settings(data):
            if is_repository and (section, name) == (b"extensions.", b"worktreeconfig"):
                self.has_extension = _parse_boolean(value, otherwise=self.has_extension)
            elif is_repository and (section, name) == (b"core.", b"repositoryformatversion"):
                self.is_versioned = True
            elif self.is_own and len(self._open) == 1 and (section, name) == (b"core.", b"bare"):  # in no included file
                self.is_bare = _parse_boolean(value, otherwise=self.is_bare)
            self._apply_setting(section, name, value, path)
        self._open.pop()

    def _apply_setting(self, section: bytes, name: bytes, value: bytes | None, path: str) -> None:
        """Apply one setting of the file `path`."""
        if section == b"core." and name == b"ignorecase":
            if self._counts_for_certain("core.ignoreCase"):
                self.ignore_case = _parse_boolean(value, otherwise=self.ignore_case)
        elif value is None:
            return
        elif section == b"core." and name == b"excludesfile":
            expanded = self.expand(os.fsdecode(value), path)
            if expanded is not None and self._counts_for_certain("core.excludesFile"):
                self.excludes_file, self.names_it = expanded, self.is_own
        elif name == b"path" and section == b"include.":
            self._include(value, path)
        elif name == b"path" and section.startswith(b"includeif."):
            condition = section[10:-1]
            if condition.partition(b":")[0] in _CONDITIONS:
                if self._include_condition_holds(condition, path):
                    self._include(value, path)
            elif condition and self.doubts is not None:
                above = self._doubtful
                self._doubtful = above or (path, os.fsdecode(condition[:_LONGEST_NAMED]))
                self._include(value, path)
                self._doubtful = above

    def _include(self, value: bytes, path: str) -> None:
        """Read the file that a line of the file `path` names."""
        included = self.expand(os.fsdecode(value), path)
        if included:
            self.read_with_includes(os.path.join(os.path.dirname(path), included))

    def _counts_for_certain(self, setting: str) -> bool:
        """True if a line that is read now counts. Else it is noted as a doubt, until a later line counts."""
        if self.doubts is None:
            return True
        if self._doubtful is None:
            self.doubts.pop(setting, None)
            return True
        doubt = Doubt(*self._doubtful, setting)
        some = self.doubts.setdefault(setting, [])
        if doubt not in some and len(some) < _MOST_NAMED:
            some.append(doubt)
        return False

    def _charge_or_refuse_file(self, path: str, cost: int) -> bool:
        """Charge a cost to the common limit. If it is exceeded, refuse the file `path` and return False."""
        if cost > self._left:
            return self._note_refused_file(path, "too much git configuration")
        self._left -= cost
        return True

    def _note_refused_file(self, path: str, why: str) -> bool:
        refused = RefusedConfig(path, why, self.is_own)
        if refused not in self.refused and len(self.refused) < _MOST_NAMED:
            self.refused.append(refused)
        return False

    def expand(self, path: str, said_in: str = "") -> str | None:
        """Expand a leading `~` or `~user` of a `path` in the file `said_in`; None if that home is unknown."""
        if path.startswith("%(prefix)/"):
            return None
        if not path.startswith("~"):
            return path
        user, slash, rest = path[1:].partition("/")
        home = self._environ.get("HOME")
        if user:
            import pwd

            try:
                home = pwd.getpwnam(user).pw_dir if self._charge_or_refuse_file(said_in, _A_USER) else None
            except (KeyError, ValueError, OSError):
                home = None
        return None if home is None else home + slash + rest

    def _include_condition_holds(self, condition: bytes, path: str) -> bool:
        """True if an includeIf condition in the file `path` holds."""
        kind, _, wanted = condition.partition(b":")
        if not self._charge_or_refuse_file(path, _A_CONDITION + _BYTE_OF_A_CONDITION * len(wanted)):
            return False
        fold = kind == b"gitdir/i"
        from .wildmatch import matches_whole

        plain, pattern = self._split_gitdir_condition(os.fsdecode(wanted), path)
        for candidate in self._git_dirs:
            text = os.fsencode(candidate)
            begins = text[: len(plain)]
            same = begins.lower() == plain.lower() if fold else begins == plain
            if same and matches_whole(pattern, text[len(plain) :], fold=fold):
                return True
        return False

    def _split_gitdir_condition(self, wanted: str, path: str) -> tuple[bytes, bytes]:
        """Split a gitdir condition. Returns (literal prefix, pattern for the rest)."""
        plain = ""
        if wanted == "~" or wanted.startswith("~/"):
            home = self._environ.get("HOME")
            wanted = wanted if home is None else locations.real_path(home) + wanted[1:]
        elif wanted.startswith("~"):
            wanted = self.expand(wanted, path) or wanted
        if wanted.startswith("./"):
            plain = os.path.dirname(locations.real_path(path)).rstrip("/") + "/"
            wanted = wanted[2:]
        elif not wanted.startswith("/"):
            wanted = "**/" + wanted
        return os.fsencode(plain), os.fsencode(wanted + "**" if (plain + wanted).endswith("/") else wanted)


def _read_with_identity(path: str) -> tuple[bytes, tuple[int, int]]:
    """Returns (data, (device, inode)) of a regular file, with one byte beyond the limit; (b"", (0, 0)) if
    unreadable."""
    try:
        # Without O_NONBLOCK, opening a fifo would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b"", (0, 0)
    try:
        status = os.fstat(descriptor)
        data = fsio.read_fd(descriptor, _LARGEST_FILE + 1) if stat.S_ISREG(status.st_mode) else b""
        return data, (status.st_dev, status.st_ino)
    except OSError:
        return b"", (0, 0)
    finally:
        os.close(descriptor)


class _ConfigText:
    """A cursor over bytes. Regular expressions are avoided: compiling them would dominate the cost of a save."""

    def __init__(self, data: bytes) -> None:
        self._data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
        self._at = 0

    def next_byte(self) -> int:
        """The next byte; a newline at the end."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else _NEWLINE

    def bytes_while_in(self, some: bytes) -> bytes:
        """The next bytes, as long as they are in `some`."""
        start = self._at
        while self._at < len(self._data) and self._data[self._at] in some:
            self._at += 1
        return self._data[start : self._at]

    def skip_line(self) -> None:
        """Move to the end of the line."""
        end = self._data.find(b"\n", self._at)
        self._at = len(self._data) if end < 0 else end


def _parse_settings(data: bytes) -> Iterator[tuple[bytes, bytes, bytes | None]]:
    """Yields (section, name, value), up to the first malformed line. Section and name are in lower case, with a dot
    after the section and after its subsection. The value of a bare name is None."""
    text = _ConfigText(data)
    section = b""
    while True:
        text.bytes_while_in(_SPACE)
        byte = text.next_byte()
        if byte in b"#;":
            text.skip_line()
        elif byte == _OPEN:
            head = _parse_section(text)
            if head is None:
                return
            section = head
        elif byte in _LETTERS:
            name = (bytes([byte]) + text.bytes_while_in(_NAME)).lower()
            text.bytes_while_in(b" \t")
            byte = text.next_byte()
            value = _parse_value(text) if byte == _EQUALS else None
            if value is None and byte != _NEWLINE:
                return
            yield section, name, value
        else:
            return  # malformed, or the end


def _parse_section(text: _ConfigText) -> bytes | None:
    """The content of a section's brackets, after the opening bracket; None if it is malformed."""
    section = text.bytes_while_in(_NAME + b".").lower() + b"."
    byte = text.next_byte()
    if byte == _CLOSE:
        return section
    text.bytes_while_in(b" \t\r")
    if byte not in b" \t\r" or text.next_byte() != _QUOTE:
        return None
    name = bytearray()
    while (byte := text.next_byte()) != _QUOTE:
        if byte == _BACKSLASH:
            byte = text.next_byte()
        if byte == _NEWLINE:
            return None
        name.append(byte)
    return section + name + b"." if text.next_byte() == _CLOSE else None


def _parse_value(text: _ConfigText) -> bytes | None:
    """The value that begins here, to the end of its line; None if it is malformed."""
    value = bytearray()
    spaces = 0  # outside quotes, and perhaps trailing
    quoted = False
    while (byte := text.next_byte()) != _NEWLINE:
        if byte in _SPACE and not quoted:
            spaces += bool(value)
            continue
        if byte in b"#;" and not quoted:
            text.skip_line()
            break
        value += b" " * spaces
        spaces = 0
        if byte == _QUOTE:
            quoted = not quoted
        elif byte != _BACKSLASH:
            value.append(byte)
        elif (escaped := text.next_byte()) in _ESCAPES:
            value.append(_ESCAPES[escaped])
        elif escaped != _NEWLINE:  # otherwise the value continues on the next line
            return None
    return None if quoted else bytes(value)


def _parse_boolean(value: bytes | None, *, otherwise: bool = False) -> bool:
    """A boolean in git's syntax; `otherwise` if it is invalid."""
    word = "true" if value is None else value.decode("latin-1").lower()
    if word in {"true", "yes", "on"}:
        return True
    if word in {"false", "no", "off", ""}:
        return False
    digits, unit = (word[:-1], _UNITS[word[-1]]) if word[-1] in _UNITS else (word, 1)
    bare = digits.lstrip(" \t\r\n\v\f+-")
    try:
        number = int(digits, 16 if bare.startswith("0x") else 8 if bare.startswith("0") else 10) * unit
    except ValueError:
        return otherwise
    return otherwise if "_" in word or abs(number) >= 1 << 31 else number != 0
