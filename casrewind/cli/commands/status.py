"""casrewind status: how the project is protected."""

import os
import time
from collections.abc import Iterator, Sequence

from ... import agents, environment, errors, locations
from ..._typing import TYPE_CHECKING
from ...agents import hook_checks
from ...history import lookup
from ...history import other_worktrees as others
from ...history.worktree_timeline import WorktreeTimeline
from ...messages import age_in_words, plural, printable, shell_quoted
from ...model import retention
from ...model.domain import LINKED_WORKTREE
from ...model.retention import Limits
from ...store import push_notes
from ...store.layout import Layout
from ...typed_commands import advice_as_typed, as_typed
from ...upkeep import inclusion, unprotected
from ...upkeep import status as statuses
from ...upkeep.status import AgentSeen, Status, Unsaved
from ...worktree.ignored import find_ignored
from ...worktree.scan_policy import ScanPolicy
from ..grammar.options import JSON, Command, flag
from ..plan.facts import find_unsent, unsaved_in_words
from ..show import shapes
from ..show.left_out import gone_lines, gone_shape, ignored_lines, ignored_shape, lines_of_all_ignored
from ..show.restored import turn_name
from ..show.shapes import Shape, time_of
from ..show.text import human_size, skipped_lines
from ..terminal.lines import print_json, print_line, print_lines
from . import OK, Done

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind status", "casrewind status --ignored"),
    options=(
        flag("--ignored", "list everything that ignore rules leave out, even if counting takes long"),
        JSON,
    ),
    tells_faults=True, tells_restore=True,
)

_RULES = 5
"""Private rules that are shown."""
_GONE = 3
"""Worktrees that are gone and shown."""


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind status."""
    found, seen = statuses.status(context), statuses.agents_seen(context)
    try:
        unsaved: Unsaved | str | None = statuses.find_unsaved(context)
    except errors.CasrewindError as error:
        unsaved = str(error)
    ignored = find_ignored(context.tree, context.policy, reads_all=options.ignored)
    unprotected.record_named(context, ignored.entries)
    lost = unprotected.find_gone(context)
    connected = []
    for name in agents.NAMES:
        is_connected, gone = hook_checks.find_missing_hook_files(
            agents.load_client(name), context.root.path, environment.home_directory(), os.environ
        )
        connected += [name] if is_connected else []
        found = found._replace(protected=found.protected and not gone, reasons=(*found.reasons, *gone))
    done()
    if options.json:
        last = None
        if found.last is not None:
            last = shapes.checkpoint(found.last, lookup.marks(context, found.last), lookup.current_id(context))
        shape = _status_json(found, seen, context.root.path, context.store.path, options.budget, last)
        shape |= {"connected": connected, "keeps": _keeps_json(found, context.limits)}
        shape["unsaved"] = {"files": unsaved.files, "checkpoint": unsaved.point.id} if isinstance(unsaved, Unsaved) else None
        rules = [os.fsdecode(rule) for rule in inclusion.private_rules(context.policy)]
        private = {"file": Layout(context.store.path).rules, "rules": rules}
        remote = find_unsent(context)
        shape["remote"] = None
        if remote is not None:
            from ..show.remote import remote_shape

            shape["remote"] = remote_shape(remote, environment.configuration().remote_push)
        failed = push_notes.read_failed_join(context.store.remotes)
        shape["remote_not_joined"] = None if failed is None else failed.problem
        shape["worktrees"] = [_worktree_json(each) for each in others.find_others(context)]
        print_json({**shape, **ignored_shape(ignored), "ignored_gone": gone_shape(lost), "private_rules": private})
    else:
        if found.protected:
            words, differ_from = unsaved_in_words(unsaved)
            print_line(f"{words}; {as_typed(f'diff {differ_from}')} names them" if differ_from else words)
        _print_status(context, found, seen, connected, options)
        _print_private_rules(context.policy, context.store.path)
        lines = lines_of_all_ignored if options.ignored else ignored_lines
        print_lines(line.with_around("  ") for line in (*gone_lines(lost), *lines(ignored)))
    return OK


def _print_status(
    context: "Context", found: Status, seen: Sequence[AgentSeen], connected: Sequence[str], options: "ParsedOptions"
) -> None:
    if found.protected and found.last is not None and not connected:
        print_line(f"saved {age_in_words(found.last.created_ns)}; no agent is connected: nothing is saved automatically")
    elif found.protected and found.last is not None:
        print_line(f"protected by the checkpoint made {age_in_words(found.last.created_ns)}")
    else:
        print_line("NOT PROTECTED")
    for reason in found.reasons:
        print_line(f"  ! {advice_as_typed(reason)}")
    print_line(f"  root         {printable(context.root.path)}")
    print_line(f"  store        {printable(context.store.path)} ({human_size(found.store_bytes)} of {human_size(options.budget)})")
    steps = f"{plural(found.undo, 'restore')} to undo, {found.redo} to redo" if found.undo or found.redo else "no restore to undo"
    print_line(f"  checkpoints  {found.checkpoints}; {steps}")
    if found.last is not None:
        last = found.last
        label = f" {printable(found.label)!r}" if found.label else ""
        print_line(
            f"  last         {last.id}{label}, {age_in_words(last.created_ns)}: {plural(last.files, 'file')}, {human_size(last.size)}"
        )
    _print_newest_turn(context)
    for line in _kept_in_words(found, context.limits):
        print_line(line)
    _print_remote(context)
    for item in seen:
        event = f"last active {age_in_words(item.event_ns)}" if item.event else "casrewind does not know when it was active"
        point = f"; last checkpoint {item.checkpoint}, {age_in_words(item.checkpoint_ns)}" if item.checkpoint else ""
        print_line(f"  {printable(item.agent):<11}  {'runs now; ' if item.running else ''}{event}{point}")
    if not connected:
        print_line("  agents       none is connected; casrewind install connects one")
    elif not seen:
        print_line(f"  agents       no agent activity yet; {as_typed('doctor')} checks the hooks")
    if found.journal is not None:
        state = "is running" if found.running else "was interrupted"
        print_line(f"  unfinished   {found.journal.op} of {found.journal.target} {state}")
    _print_worktrees(context)
    print_lines(skipped_lines([skip for skip in found.skipped if skip.reason != LINKED_WORKTREE]))


def _print_remote(context: "Context") -> None:
    """What waits for a push, or why there is no remote. Without one, and without such a reason, nothing."""
    from ..show.remote import lines_without_remote, not_pushed, remote_lines

    remote, without_effect = find_unsent(context), environment.variables_without_effect()
    if remote is None:
        lines = lines_without_remote(push_notes.read_failed_join(context.store.remotes), without_effect)
    else:
        setting = environment.configuration().remote_push
        lines = [f"{remote.config.url}; {not_pushed(remote)}", *remote_lines(remote, setting, without_effect)]
    for number, line in enumerate(lines):
        print_line(f"  {'' if number else 'remote':<11}  {printable(line)}")


def _print_newest_turn(context: "Context") -> None:
    view = WorktreeTimeline(context, needs_operations=False).with_turns(1)
    if view.turns:
        print_line(f"  newest turn  {turn_name(view.with_marks(view.turns[0]))}")


def _print_worktrees(context: "Context") -> None:
    """The worktrees that have roots of their own, and the command that brings the files of one that is gone."""
    found = others.find_others(context)
    live, gone = [each for each in found if not each.is_gone], [each for each in found if each.is_gone]
    head = "worktrees"
    for each in live:
        saved = "not saved yet" if each.newest is None else f"saved {age_in_words(each.newest.created_ns)}"
        print_line(f"  {head:<11}  {_path_from(context, each)}: its own root, {saved}")
        head = ""
    for each in gone[:_GONE]:
        assert each.newest is not None
        print_line(f"  {head:<11}  gone, saved {age_in_words(each.newest.created_ns)}: {_path_from(context, each)}")
        here = locations.real_path(os.getcwd()) == context.root.path
        target = os.path.relpath(each.place, context.root.path) if here else each.place
        print_line(f"  {'':<11}  casrewind restore {each.newest.id} --to {shell_quoted(target)}")
        head = ""
    if len(gone) > _GONE:
        print_line(f"  {'':<11}  ... and {len(gone) - _GONE} more; status --json has them all")


def _path_from(context: "Context", each: others.OtherWorktree) -> str:
    """A worktree's path as a person in the root writes it."""
    return printable(os.path.relpath(each.place, context.root.path))


def _worktree_json(each: others.OtherWorktree) -> Shape:
    last = each.newest
    return {
        **shapes.path(os.fsencode(each.place)), "gone": each.is_gone, "last_checkpoint": last and last.id,
        "last_checkpoint_at": last and time_of(last.created_ns),
    }  # fmt: skip


def _print_private_rules(policy: ScanPolicy, store: str) -> None:
    rules = inclusion.private_rules(policy)
    if rules:
        shown = ", ".join(printable(rule) for rule in rules[:_RULES])
        more = f" and {len(rules) - _RULES} more" if len(rules) > _RULES else ""
        print_line(f"  rules        {plural(len(rules), 'private rule')} of casrewind include and exclude: {shown}{more}")
        print_line(f"               in {printable(Layout(store).rules)}")


def _kept_in_words(found: Status, limits: Limits) -> Iterator[str]:
    """What is kept, in words: how far back it goes, and what is deleted by itself."""
    if found.oldest is not None:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.oldest.created_ns // 1_000_000_000))
        most = [f"{limits.max_age / 86400:g} days"] if limits.max_age is not None else []
        most += [f"{limits.max_count:,} turns"] if limits.max_count is not None else []
        most += [human_size(limits.max_size)] if limits.max_size is not None else []
        yield f"  keeps        back to {when}; at most {', '.join(most)}" if most else f"  keeps        back to {when}"
        if limits.thin:
            days, more = retention.WHOLE // 86400, retention.HOURLY // 86400
            yield f"               all turns of {days} days, then one an hour, after {more} days one a day"


def _keeps_json(found: Status, limits: Limits) -> Shape:
    return {
        "back_to": None if found.oldest is None else time_of(found.oldest.created_ns),
        "max_age": limits.max_age,
        "max_count": limits.max_count,
        "thin": limits.thin,
    }


def _status_json(found: Status, seen: Sequence[AgentSeen], root: str, store: str, budget: int, last: Shape | None) -> Shape:
    journal = None
    if found.journal is not None:
        journal = {
            "op": found.journal.op,
            "target": found.journal.target,
            "safety": found.journal.safety,
            "started_at": time_of(found.journal.created_ns),
            "running": found.running,
        }
    return {
        "root": root,
        "store": store,
        "checkpoints": found.checkpoints,
        "last": last,
        "protected": found.protected,
        "reasons": list(found.reasons),
        "store_bytes": found.store_bytes,
        "budget_bytes": budget,
        "agents": {item.agent: _agent_json(item) for item in seen},
        "journal": journal,
        "skipped": shapes.skips(found.skipped),
    }


def _agent_json(found: AgentSeen) -> Shape:
    return {
        "session": found.session or None,
        "last_event": found.event or None,
        "last_event_at": time_of(found.event_ns) if found.event_ns else None,
        "running": found.running,
        "last_checkpoint": found.checkpoint or None,
        "last_checkpoint_at": time_of(found.checkpoint_ns) if found.checkpoint_ns else None,
    }
