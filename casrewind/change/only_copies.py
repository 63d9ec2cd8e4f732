"""Files that a plan removes and that may have been ignored files: an agent moved them to where they are captured.

The danger prevented here: an agent does `mv .env env.txt`. To go back removes env.txt, and `.env` cannot come back, because no
checkpoint ever had it. So such a file is named before it goes, and the safety checkpoint, the only copy, is kept as a pinned one.

No checkpoint lists what rules ignored, so nothing here is certain. A removed file may be such a copy if three things hold. The file is
older than the checkpoint to go back to. No checkpoint until then has the file there, or its content anywhere. And an ignored path is
gone: a rule names it and its name resembles the file's, or the same rules ignore fewer entries now.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from .. import errors
from ..context import Context
from ..model import manifest, paths
from ..model.at_risk import OnlyCopy
from ..model.checkpoint import Checkpoint
from ..model.domain import Domain
from ..model.manifest import FILE
from ..model.plan import Action
from ..store import packs
from ..worktree.ignored import is_recreatable
from .safety_capture import CapturedState

_OLDER = 200  # checkpoints before the target, in which the file is looked for
_LEAST = 3  # letters of a name that resembles another one
_GLOB = frozenset(b"*?[\\")


def find_only_copies(context: Context, now: CapturedState, target: str, actions: Iterable[Action]) -> tuple[OnlyCopy, ...]:
    """The files of a plan, sorted by path, that may be the only copies of files that were ignored at the checkpoint `target`."""
    since = context.store.checkpoint(target)
    if since is None or since.worktree != context.root.key:
        return ()
    old = [
        action for action in actions
        if action.after is None and action.before is not None and action.before.kind == FILE
        if action.before.size and action.before.mtime_ns < since.created_ns
    ]  # fmt: skip
    if not old:
        return ()
    found: tuple[OnlyCopy, ...] = ()
    with suppress(errors.StoreDamaged, errors.ManifestRefused):  # the plan itself reports damage
        domain = context.store.domain(since.domain)
        here = now.scan.domain
        is_fewer = here.ignored < domain.ignored and (here.rules, here.default_excludes) == (domain.rules, domain.default_excludes)
        finder = manifest.Finder(context.store.load_tree, since.tree)

        def is_gone(path: bytes) -> bool:
            return finder.find(path) is None and not context.tree.may_exist(path)

        names = list(dict.fromkeys(_names_in_rules(context, domain)))
        pairs = [(action, _source_that_resembles(action.path, names, is_gone)) for action in old]
        likely = [(action, source) for action, source in pairs if source or is_fewer]
        known = _digests_known_before(context, since, [action for action, _ in likely])
        gone = [path for path in (paths.join(base, name) for base, name in names) if is_gone(path)] if likely else []
        only = gone[0] if len(gone) == 1 else b""
        found = tuple(
            OnlyCopy(action.path, source or only)
            for action, source in likely if action.before is not None and action.before.digest not in known
        )  # fmt: skip
    return found


def _names_in_rules(context: Context, domain: Domain) -> Iterator[tuple[bytes, bytes]]:
    """What rules name without a wildcard, each with the directory of its rule. Not what tools make again."""
    for rule in domain.rules:
        for line in context.store.read(rule.digest, packs.RULES).splitlines():
            name = line.strip().strip(b"/")
            if name and not line.startswith((b"#", b"!")) and not _GLOB.intersection(name) and not _is_recreatable(name):
                yield rule.base, name


def _is_recreatable(name: bytes) -> bool:
    own = name.rpartition(b"/")[2]
    return is_recreatable(own, is_dir=True) or is_recreatable(own, is_dir=False)  # a rule does not say which of the two it means


def _source_that_resembles(path: bytes, names: Iterable[tuple[bytes, bytes]], is_gone: Callable[[bytes], bool]) -> bytes:
    """The first path that a rule names, that is gone, and whose name resembles that of a file; b"" if there is none. A rule
    without a slash counts in the directory of the file."""
    parent, _, own = path.rpartition(b"/")
    for base, name in names:
        short, long = sorted((_letters(own), _letters(name.rpartition(b"/")[2])), key=len)
        if len(short) < _LEAST or short not in long:
            continue
        is_below = b"/" not in name and (not base or (parent + b"/").startswith(base + b"/"))
        source = paths.join(parent if is_below else base, name)
        if is_gone(source):
            return source
    return b""


def _letters(name: bytes) -> bytes:
    return bytes(each for each in name.lower() if each not in b"._- ")


def _digests_known_before(context: Context, since: Checkpoint, actions: list[Action]) -> set[bytes]:
    """The contents of these files that the checkpoint has anywhere, or an older one at the same path."""
    wanted = {action.before.digest for action in actions if action.before is not None}
    if not wanted:
        return set()
    known = {entry.digest for _, entry in manifest.walk(context.store.load_tree, since.tree) if entry.digest in wanted}
    older = [point for point, _ in context.store.checkpoints() if point.worktree == since.worktree and point.seq < since.seq]
    for point in older[:_OLDER]:
        finder = manifest.Finder(context.store.load_tree, point.tree)
        there = (finder.find(action.path) for action in actions)
        known.update(entry.digest for entry in there if entry is not None and entry.digest in wanted)
    return known
