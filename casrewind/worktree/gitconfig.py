"""Two settings out of git's configuration, read without git: core.excludesFile and core.ignoreCase.

The danger: a configuration file belongs to the user or came with a clone. A half-written one must not stop a
save, a fifo in its place must not hang one, an include that names itself must end. So everything readable
counts, a file counts up to its first malformed line (where git refuses to work), and nothing here raises.

Files in the order git reads them, the last word wins: the system's, the user's two, the repository's,
the worktree's own. Includes stand where they are written.

Not looked at: settings passed through the environment or on a command line, includes that depend on the
branch or on remotes, and `%(prefix)` paths, which only an installed git can resolve.
"""

import os
import stat
from collections.abc import Iterator, Mapping

from casrewind.worktree.wildmatch import match

from ..typed import NamedTuple

_SYSTEM_FILE = "/etc/gitconfig"
_DEEPEST_INCLUDE = 10  # git's own limit
_MOST_FILES = 200  # ten levels of a file that includes itself twice are already a thousand
_LARGEST_FILE = 16 << 20  # git has no limit; nobody has such a file, and it is read in every save

_SPACE = b" \t\r\n"
_ESCAPES = {ord("t"): b"\t", ord("b"): b"\b", ord("n"): b"\n", ord("\\"): b"\\", ord('"'): b'"'}
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY = _LETTERS + b"0123456789-"
_SECTION = _KEY + b"."
_NUMBER = rb"[ \t\r\n\v\f]*([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)([kKmMgG]?)"
_UNITS = {b"": 1, b"k": 1 << 10, b"m": 1 << 20, b"g": 1 << 30}


class GitSettings(NamedTuple):
    """What the ignore rules need to know. A relative `excludes_file` is relative to the worktree's root."""

    excludes_file: str | None
    ignore_case: bool


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
        reader.take(os.path.join(common_dir, "config"))
        if git_dir is not None and _has_worktree_config(common_dir):
            reader.take(os.path.join(git_dir, "config.worktree"))
    excludes_file = _user_file(environ, "ignore") if reader.excludes_file is None else reader.excludes_file
    return GitSettings(excludes_file or None, reader.ignore_case)


def _user_file(environ: Mapping[str, str], name: str) -> str | None:
    if base := environ.get("XDG_CONFIG_HOME"):
        return os.path.join(base, "git", name)
    home = environ.get("HOME")
    return None if home is None else os.path.join(home, ".config", "git", name)


def _has_worktree_config(common_dir: str) -> bool:
    # git looks for this in the repository's own file, follows no include for it, and believes no extension
    # of a repository that does not say its format version.
    found = versioned = False
    for key, value in _settings(_contents(os.path.join(common_dir, "config"))):
        if key == b"extensions.worktreeconfig":
            found = _truth(value, otherwise=found)
        elif key == b"core.repositoryformatversion":
            versioned = True
    return found and versioned


class _Reader:
    """Takes files in order and keeps the last word on each setting."""

    def __init__(self, git_dir: str | None, environ: Mapping[str, str]) -> None:
        self.excludes_file: str | None = None
        self.ignore_case = False
        self._git_dir = git_dir
        self._environ = environ
        self._files_left = _MOST_FILES

    def take(self, path: str | None, depth: int = 0) -> None:
        """Read one file, and what it includes, if it is there."""
        if not path or depth > _DEEPEST_INCLUDE or self._files_left == 0:
            return
        self._files_left -= 1
        for key, value in _settings(_contents(path)):
            if key == b"core.ignorecase":
                self.ignore_case = _truth(value, otherwise=self.ignore_case)
            elif value is None:
                continue
            elif key == b"core.excludesfile":
                expanded = self.expand(os.fsdecode(value))
                self.excludes_file = self.excludes_file if expanded is None else expanded
            elif key == b"include.path" or (
                key.startswith(b"includeif.") and key.endswith(b".path") and self._holds(key[10:-5], path)
            ):
                included = self.expand(os.fsdecode(value))
                if included:
                    self.take(os.path.join(os.path.dirname(path), included), depth + 1)

    def expand(self, path: str) -> str | None:
        """`path` with a leading `~` or `~user` replaced; None if that home is not known."""
        if path.startswith("%(prefix)/"):
            return None
        if not path.startswith("~"):
            return path
        user, slash, rest = path[1:].partition("/")
        home = _home_of(user) if user else self._environ.get("HOME")
        return None if home is None else home + slash + rest

    def _holds(self, condition: bytes, path: str) -> bool:
        """Whether an includeIf condition in the file `path` is met."""
        kind, _, wanted = condition.partition(b":")
        if kind not in {b"gitdir", b"gitdir/i"} or self._git_dir is None:
            return False
        fold = kind == b"gitdir/i"
        plain, pattern = self._place(os.fsdecode(wanted), path)
        for candidate in (os.path.realpath(self._git_dir), os.path.abspath(self._git_dir)):
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


def _home_of(user: str) -> str | None:
    import pwd

    try:
        return pwd.getpwnam(user).pw_dir
    except (KeyError, ValueError, OSError):
        return None


def _contents(path: str) -> bytes:
    """The bytes of a regular file; nothing if it cannot be read or is none."""
    try:
        # Without O_NONBLOCK the open itself would wait for a fifo's other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        parts = []
        left = _LARGEST_FILE
        while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    except OSError:
        return b""
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
