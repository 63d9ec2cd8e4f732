"""Decides which words of a command line are checkpoints and which are paths.

The danger prevented here: a word that is both. A restore of a checkpoint changes the whole project, where a person meant one path.
"""

import os

from .. import errors, fsio
from .._typing import Any
from ..model.checkpoint import Checkpoint

_MAGIC = (":(", ":!", ":/", ":^")
_PATTERN = frozenset("*?[")


def restored(workspace: Any, options: Any) -> Checkpoint:
    """The checkpoint that a restore names; the paths go into `options.rest`.

    Raises UsageError for a word that is a path as well, and CheckpointNotFound.
    """
    word, name = options.ref, options.command
    if options.dashed and options.paths:
        raise errors.UsageError(f"{name}: put all paths after --")
    point = _checkpoint(workspace, word, f"casrewind {name} last --", options)
    if not options.dashed:
        if is_present(word, options):
            raise errors.UsageError(
                f"{fsio.printable(word)!r} is both a checkpoint and a path: casrewind {name} {point.id} means the checkpoint, "
                f"casrewind {name} last -- {quoted(word)} means the path"
            )
        options.rest, options.dashed = options.paths, bool(options.paths)
    return point


def shown(workspace: Any, options: Any) -> Checkpoint:
    """The checkpoint that `show` names. Raises CheckpointNotFound."""
    return _checkpoint(workspace, options.ref, "casrewind log", options)


def compared(workspace: Any, options: Any) -> list[Checkpoint]:
    """The checkpoints that a diff names, two at most; the paths go into `options.rest`.

    As in git: the first word that is no checkpoint is a path, and so are all after it. Raises UsageError for a word that is both,
    and CheckpointNotFound for one that is neither.
    """
    if options.dashed:
        if len(options.words) > 2:
            raise errors.UsageError("diff takes at most two checkpoints; paths go after --")
        return [_checkpoint(workspace, word, "casrewind diff --", options) for word in options.words]
    found: list[Checkpoint] = []
    words = list(options.words)
    while words and len(found) < 2:
        word = words[0]
        if word.startswith(_MAGIC):
            break
        try:
            point = workspace.checkpoint(word)
        except errors.CheckpointError:
            if is_present(word, options) or _PATTERN & set(word) or _is_known(workspace, word, found, options):
                break
            raise
        if is_present(word, options):
            before = "".join(f"{point.id} " for point in found)
            raise errors.UsageError(
                f"{fsio.printable(word)!r} is both a checkpoint and a path: casrewind diff {before}{point.id} means the checkpoint, "
                f"casrewind diff {before}-- {quoted(word)} means the path"
            )
        found.append(point)
        words.pop(0)
    options.rest = words
    return found


def is_present(word: str, options: Any) -> bool:
    """True if a word is the path of something that exists, from where the command was started."""
    try:
        return bool(word) and os.path.lexists(os.path.join(options.directory, word))
    except ValueError:  # a NUL
        return False


def quoted(word: str) -> str:
    """A word as one types it in a shell."""
    import shlex

    return shlex.quote(fsio.printable(word))


def _is_known(workspace: Any, word: str, points: list[Checkpoint], options: Any) -> bool:
    """True if a checkpoint that is compared holds this path."""
    from ..ops.compare import is_anywhere
    from ..workspace import context_of

    try:
        (path,) = workspace.scope([word], options.directory)
        return is_anywhere(context_of(workspace), points or [workspace.checkpoint("last")], path)
    except errors.CasrewindError:
        return False


def _checkpoint(workspace: Any, word: str, instead: str, options: Any) -> Checkpoint:
    """The checkpoint that a word names. The error for a path says how to name a path: `instead` comes before it."""
    try:
        found: Checkpoint = workspace.checkpoint(word)
    except errors.CheckpointNotFound as error:
        if is_present(word, options):
            what = f"no checkpoint {fsio.printable(word)!r}, but a path of that name; {instead} {quoted(word)}"
            raise errors.CheckpointNotFound(what) from error
        raise
    return found
