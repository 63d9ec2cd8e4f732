"""Two settings out of git's configuration, read without git: core.excludesFile and core.ignoreCase.

The danger: a configuration file belongs to the user or came with a clone. A half-written one must not stop a
save, a fifo in its place must not hang one, an include that names itself must end, and no file may cost more than a
moment. So everything readable counts, a file counts up to its first malformed line (where git refuses to work), and nothing
here raises. What costs too much is refused as a whole and named; what was read before it stands.

Files in the order git reads them, the last word wins: the system's, the user's two, the repository's,
the worktree's own. Includes stand where they are written.

Not looked at: settings passed through the environment or on a command line, includes that depend on the
branch or on remotes, and `%(prefix)` paths, which only an installed git can resolve.
"""

import os
import stat
from collections.abc import Iterator, Mapping

from casrewind.worktree.wildmatch import match

from .. import fsio
from ..typed import NamedTuple

_SYSTEM_FILE = "/etc/gitconfig"
_DEEPEST_INCLUDE = 10  # git's own limit
# git has no such limits. Real files stay far below them. Every save reads these files: at the limits that takes a second or two.
_LARGEST_FILE = 1 << 20
_MOST_BYTES, _MOST_LINES, _MOST_FILES = 4 << 20, 100_000, 100  # of all files, counted each time that one is included
_MOST_CONDITIONS, _OF_A_CONDITION = 64 << 10, 64  # bytes of all conditions, and what each costs besides
_LONGEST_SECTION = 8 << 10  # it is a part of every key in it; a condition that is longer is never met
_MOST_USERS = 16  # whose homes are looked up
_MOST_NAMED = 3  # of what is refused

_SPACE = b" \t\r\n"
_ESCAPES = {ord("t"): b"\t", ord("b"): b"\b", ord("n"): b"\n", ord("\\"): b"\\", ord('"'): b'"'}
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY = _LETTERS + b"0123456789-"
_SECTION = _KEY + b"."
_NUMBER = rb"[ \t\r\n\v\f]*([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)([kKmMgG]?)"
_UNITS = {b"": 1, b"k": 1 << 10, b"m": 1 << 20, b"g": 1 << 30}


class Refused(NamedTuple):
    """A configuration file that does not count, and why. `is_own`: the repository's own configuration led to it."""

    path: str
    why: str
    is_own: bool


class GitSettings(NamedTuple):
    """What the ignore rules need to know. A relative `excludes_file` is relative to the worktree's root; `is_own`: the
    repository's own configuration names it."""

    excludes_file: str | None
    ignore_case: bool
    is_own: bool = False
    refused: tuple[Refused, ...] = ()


def read(git_dir: str | None, common_dir: str | None, environ: Mapping[str, str]) -> GitSettings:
    """The settings in force for the repository with these directories; None where there is no repository."""
    reader = _Reader(git_dir, environ)
    if not _truth(environ.get("GIT_CONFIG_NOSYSTEM", "").encode("utf-8", "surrogateescape")):
        reader.take(environ.get("GIT_CONFIG_SYSTEM", _SYSTEM_FILE))
    if "GIT_CONFIG_GLOBAL" in environ:
        reader.take(environ["GIT_CONFIG_GLOBAL"])
    else:
        reader.take(_user_file(environ, "config"))
        reader.take(reader.expand("~/.gitconfig"))
    if common_dir is not None:
        reader.is_own = True
        reader.take(os.path.join(common_dir, "config"), is_repository=True)
        if git_dir is not None and reader.has_worktree_config:
            reader.take(os.path.join(git_dir, "config.worktree"))
    if reader.excludes_file is None:
        return GitSettings(_user_file(environ, "ignore"), reader.ignore_case, False, tuple(reader.refused))
    return GitSettings(reader.excludes_file or None, reader.ignore_case, reader.names_it, tuple(reader.refused))


def _user_file(environ: Mapping[str, str], name: str) -> str | None:
    if base := environ.get("XDG_CONFIG_HOME"):
        return os.path.join(base, "git", name)
    home = environ.get("HOME")
    return None if home is None else os.path.join(home, ".config", "git", name)


class _Reader:
    """What the files read so far say; a later file overrides an earlier one."""

    def __init__(self, git_dir: str | None, environ: Mapping[str, str]) -> None:
        self.excludes_file: str | None = None
        self.ignore_case = False
        self.is_own = self.names_it = False  # the repository's configuration is read; it was that which named the excludes file
        self.refused: list[Refused] = []
        self._versioned = self._has_extension = False
        self._git_dirs = () if git_dir is None else (os.path.realpath(git_dir), os.path.abspath(git_dir))
        self._environ = environ
        self._files_left, self._bytes_left, self._lines_left = _MOST_FILES, _MOST_BYTES, _MOST_LINES
        self._conditions_left = _MOST_CONDITIONS
        self._homes: dict[str, str | None] = {}
        self._open: list[tuple[int, int]] = []  # the files that are being read: (device, inode)

    @property
    def has_worktree_config(self) -> bool:
        """True when the repository's own file asks for a configuration of the worktree. As git: includes are not followed for this, and
        extensions count only in a repository that gives its format version."""
        return self._has_extension and self._versioned

    def take(self, path: str | None, *, is_repository: bool = False) -> None:
        """Read one file, and what it includes, if it is there."""
        if not path:
            return
        data, identity = self._contents(path)
        if not data:
            return
        self._open.append(identity)
        for key, value in _settings(data):
            if is_repository and key == b"extensions.worktreeconfig":
                self._has_extension = _truth(value, otherwise=self._has_extension)
            elif is_repository and key == b"core.repositoryformatversion":
                self._versioned = True
            self._set(key, value, path)
        self._open.pop()

    def _set(self, key: bytes, value: bytes | None, path: str) -> None:
        """Take in a setting of the file `path`."""
        if key == b"core.ignorecase":
            self.ignore_case = _truth(value, otherwise=self.ignore_case)
        elif value is None:
            return
        elif key == b"core.excludesfile":
            expanded = self.expand(os.fsdecode(value))
            if expanded is not None:
                self.excludes_file, self.names_it = expanded, self.is_own
        elif key == b"include.path" or (
            key.startswith(b"includeif.") and key.endswith(b".path") and self._holds(key[10:-5], path)
        ):
            included = self.expand(os.fsdecode(value))
            if included:
                self.take(os.path.join(os.path.dirname(path), included))

    def _contents(self, path: str) -> tuple[bytes, tuple[int, int]]:
        """The bytes of a regular file, which it is then; nothing if it cannot be read, is none, or is refused."""
        data, status = _read(path)
        if status is None:
            return b"", (0, 0)
        identity = status.st_dev, status.st_ino
        lines = data.count(b"\n") + data.count(b"[")
        why = ""
        if len(data) > _LARGEST_FILE:
            why = f"more than {_LARGEST_FILE >> 20} MiB"
        elif identity in self._open:
            why = "it includes itself"
        elif len(self._open) > _DEEPEST_INCLUDE:
            why = f"more than {_DEEPEST_INCLUDE} levels of includes"
        elif self._files_left == 0 or len(data) > self._bytes_left or lines > self._lines_left:
            why = "more configuration than is read"
        if why:
            self._refuse(path, why)
            return b"", identity
        self._files_left -= 1
        self._bytes_left -= len(data)
        self._lines_left -= lines
        return data, identity

    def _refuse(self, path: str, why: str) -> None:
        refused = Refused(path, why, self.is_own)
        if refused not in self.refused and len(self.refused) < _MOST_NAMED:
            self.refused.append(refused)

    def expand(self, path: str) -> str | None:
        """`path` with a leading `~` or `~user` replaced; None if that home is not known."""
        if path.startswith("%(prefix)/"):
            return None
        if not path.startswith("~"):
            return path
        user, slash, rest = path[1:].partition("/")
        home = self._home_of(user) if user else self._environ.get("HOME")
        return None if home is None else home + slash + rest

    def _home_of(self, user: str) -> str | None:
        if user not in self._homes and len(self._homes) < _MOST_USERS:
            import pwd

            try:
                self._homes[user] = pwd.getpwnam(user).pw_dir
            except (KeyError, ValueError, OSError):
                self._homes[user] = None
        return self._homes.get(user)

    def _holds(self, condition: bytes, path: str) -> bool:
        """Whether an includeIf condition in the file `path` is met."""
        kind, _, wanted = condition.partition(b":")
        if kind not in {b"gitdir", b"gitdir/i"}:
            return False
        self._conditions_left -= len(wanted) + _OF_A_CONDITION
        if self._conditions_left < 0:
            self._refuse(path, "more conditions than are looked at")
            return False
        fold = kind == b"gitdir/i"
        plain, pattern = self._place(os.fsdecode(wanted), path)
        for candidate in self._git_dirs:
            text = os.fsencode(candidate)
            begins = text[: len(plain)]
            same = begins.lower() == plain.lower() if fold else begins == plain
            if same and match(pattern, text[len(plain) :], fold=fold):
                return True
        return False

    def _place(self, wanted: str, path: str) -> tuple[bytes, bytes]:
        """A gitdir condition as the part compared literally and the pattern for what follows."""
        plain = ""
        if wanted == "~" or wanted.startswith("~/"):
            home = self._environ.get("HOME")
            wanted = wanted if home is None else os.path.realpath(home) + wanted[1:]
        elif wanted.startswith("~"):
            wanted = self.expand(wanted) or wanted
        if wanted.startswith("./"):
            plain = os.path.dirname(os.path.realpath(path)).rstrip("/") + "/"
            wanted = wanted[2:]
        elif not wanted.startswith("/"):
            wanted = "**/" + wanted
        return os.fsencode(plain), os.fsencode(wanted + "**" if (plain + wanted).endswith("/") else wanted)


def _read(path: str) -> tuple[bytes, os.stat_result | None]:
    """The bytes of a regular file, one more than it may have at most, and what it is; None if it cannot be read or is none."""
    try:
        # Without O_NONBLOCK the open itself would wait for a fifo's other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b"", None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b"", None
        return fsio.read_fd(descriptor, _LARGEST_FILE + 1), status
    except OSError:
        return b"", None
    finally:
        os.close(descriptor)


def _settings(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Key (section and name in small letters, subsection as written) and value; None for a bare key.

    Ends at the first malformed line.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    section = b""
    at = 0
    while at < len(text):
        byte = text[at : at + 1]
        if byte in _SPACE:
            at += 1
        elif byte in b"#;":
            at = _line_end(text, at)
        elif byte == b"[":
            found = _head(text, at + 1)
            if found is None:
                return
            section, at = found
            if len(section) > _LONGEST_SECTION:
                section = b"."
        else:
            end = _behind(text, at, _KEY)
            if byte not in _LETTERS:
                return
            key = section + text[at:end].lower()
            at = _behind(text, end, b" \t")
            if text[at : at + 1] in b"\n":
                yield key, None
                continue
            value = _value(text, at + 1) if text[at : at + 1] == b"=" else None
            if value is None:
                return
            yield key, value[0]
            at = value[1]


def _head(text: bytes, at: int) -> tuple[bytes, int] | None:
    """What the keys of a section begin with, and where its head ends, which begins behind a bracket at `at`; None if it
    is malformed. By hand: compiling expressions for it costs every save more than all the rest of this."""
    end = _behind(text, at, _SECTION)
    section = text[at:end].lower() + b"."
    if text[end : end + 1] == b"]":
        return section, end + 1
    at = _behind(text, end, b" \t\r")
    if at == end or text[at : at + 1] != b'"':
        return None
    name = bytearray()
    while (at := at + 1) < len(text) and text[at] != 0x0A:
        if text[at] == 0x22:
            return (section + name + b".", at + 2) if text[at + 1 : at + 2] == b"]" else None
        if text[at] == 0x5C:
            at += 1
            if text[at : at + 1] in b"\n":
                return None
        name.append(text[at])
    return None


def _behind(text: bytes, at: int, some: bytes) -> int:
    """The first position from `at` on where the byte is none of these."""
    while at < len(text) and text[at] in some:
        at += 1
    return at


def _line_end(text: bytes, at: int) -> int:
    end = text.find(b"\n", at)
    return len(text) if end < 0 else end


def _value(text: bytes, at: int) -> tuple[bytes, int] | None:
    """The value that begins at `at` and where its line ends; None if it is malformed."""
    value = bytearray()
    spaces = 0  # seen outside quotes and not yet known to be inside the value
    quoted = False
    while at < len(text) and text[at] != 0x0A:
        byte = text[at]
        at += 1
        if byte in _SPACE and not quoted:
            spaces += bool(value)
            continue
        if byte in b"#;" and not quoted:
            return bytes(value), _line_end(text, at)
        value += b" " * spaces
        spaces = 0
        if byte == 0x22:
            quoted = not quoted
        elif byte != 0x5C:
            value.append(byte)
        elif at >= len(text) or text[at] == 0x0A:
            at += 1
        elif text[at] in _ESCAPES:
            value += _ESCAPES[text[at]]
            at += 1
        else:
            return None
    return None if quoted else (bytes(value), at)


def _truth(value: bytes | None, *, otherwise: bool = False) -> bool:
    """A boolean as git reads one; `otherwise` if it is none."""
    if value is None:
        return True
    word = value.lower()
    if word in {b"true", b"yes", b"on", b"1"}:
        return True
    if word in {b"false", b"no", b"off", b"0", b""}:
        return False
    import re

    if (found := re.fullmatch(_NUMBER, value)) is None:
        return otherwise
    base = 16 if found[2][:2].lower() == b"0x" else 8 if found[2][:1] == b"0" else 10
    try:
        number = int(found[2], base) * _UNITS[found[3].lower()]
    except ValueError:
        return otherwise
    return number != 0 if number < 1 << 31 else otherwise
