"""Git's branch and commit, read from `HEAD` and the ref that it names. No git command is run, and nothing else is read.

The danger prevented here: a repository that stops a save. Whatever is in these files, the answer is two texts, at once.
"""

import os

from .. import fsio

_MOST_HEAD = 4096
_MOST_PACKED = 1 << 20
"""Bytes of `packed-refs` that are read. A ref behind them has no known commit."""
_BRANCHES = b"refs/heads/"
_HEX = frozenset(b"0123456789abcdef")


def branch_and_commit(git_dir: str | None, common_dir: str | None) -> tuple[str, str]:
    """Returns (branch, commit in hex). A detached head has branch "", a new branch has commit "". Never raises."""
    if git_dir is None:
        return "", ""
    head = _first_line_or_nothing(os.path.join(git_dir, "HEAD"))
    if not head.startswith(b"ref:"):
        return "", _hex_if_commit_id(head)
    ref = head[4:].strip()
    if not _is_readable_ref_name(ref):
        return "", ""
    branch = ref.removeprefix(_BRANCHES)
    places = dict.fromkeys((git_dir, common_dir or git_dir))  # a worktree's own refs come first
    name = os.fsdecode(ref)
    commit = next((found for place in places if (found := _hex_if_commit_id(_first_line_or_nothing(os.path.join(place, name))))), "")
    return branch.decode("utf-8", "surrogateescape"), commit or _commit_in_packed_refs(common_dir or git_dir, ref)


def _first_line_or_nothing(path: str) -> bytes:
    """The first line of a small file, b"" for anything else."""
    try:
        return fsio.read_file(path, _MOST_HEAD).partition(b"\n")[0].strip()
    except (OSError, ValueError):
        return b""


def _commit_in_packed_refs(common_dir: str, ref: bytes) -> str:
    """The commit of a ref in `packed-refs`, "" when it is not there."""
    try:
        data = b"\n" + fsio.read_file(os.path.join(common_dir, "packed-refs"), _MOST_PACKED)
    except (OSError, ValueError):
        return ""
    end = data.find(b" " + ref + b"\n")
    return _hex_if_commit_id(data[data.rfind(b"\n", 0, end) + 1 : end]) if end >= 0 else ""


def _hex_if_commit_id(text: bytes) -> str:
    return text.decode() if len(text) in (40, 64) and _HEX.issuperset(text) else ""


def _is_readable_ref_name(ref: bytes) -> bool:
    """True if this reader can look up a ref of that name. With reftables, HEAD names `refs/heads/.invalid`."""
    parts = ref.split(b"/")
    is_sound = parts[0] == b"refs" and len(parts) > 1 and not any(part[:1] in (b"", b".") for part in parts)
    return is_sound and len(ref) < 1024 and min(ref) > 32
