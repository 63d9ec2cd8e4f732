"""What is looked up for the plan of a restore: its target in words, the branches, and the rules that it takes back; and whether the
files of now are saved."""

import os
import time
from contextlib import suppress

from ... import errors, launch
from ..._typing import TYPE_CHECKING
from ...context import Context
from ...gitignore.rules import can_protect_ignored_paths
from ...history import lookup
from ...history.checkpoint_names import ReferencePlace
from ...messages import age_in_words, plural, printable, session_in_words
from ...model.checkpoint import SAFETY, TAKEN_FROM, Checkpoint
from ...model.plan import Plan
from ...model.undo_history import REDO, REVERT, UNDO, Step, find_origins
from ..show.left_out import lost_rule_lines
from ..show.restored import RestoreTarget, first_words, name_of, quoted_title, turn_details
from ..show.text import Line

if TYPE_CHECKING:
    from ...change.result import Restored
    from ...history.turn_view import TurnView
    from ...model.turn_records import Turn
    from ...remote.pushed import Unsent
    from ...upkeep.inclusion import LostRule
    from ...upkeep.status import Unsaved


_START_OF_PROMPT = 200  # characters of a prompt that a checkpoint holds


def find_unsent(context: Context) -> "Unsent | None":
    """What waits for a push. Without a remote nothing about remotes is imported."""
    if not os.path.lexists(context.store.remotes):
        return None
    from ...remote.pushed import count_unsent

    return count_unsent(context)


def unsaved_in_words(found: "Unsaved | str | None") -> tuple[str, str]:
    """Returns (whether the files of now are saved, the checkpoint that those differ from which are not, or ""). `found`: or why
    that is not known."""
    if not isinstance(found, tuple):
        return f"casrewind does not know whether the current files are saved: {found or 'no checkpoint yet'}", ""
    if not found.files:
        return "all files are saved" + (", except what is not captured" if found.has_left_out else ""), ""
    name, word = ("the newest checkpoint", "last") if found.is_newest else (f"the restored checkpoint {found.point.id}", found.point.id)
    differ, them = ("differs", "it") if found.files == 1 else ("differ", "them")
    left = f", as the {found.step} left {them}" if found.step else ""
    return f"{plural(found.files, 'file')} {differ} from {name}{left}", word


def target_of(context: Context, point: Checkpoint) -> RestoreTarget:
    """A checkpoint as the target of a restore."""
    turn, marked = _turn_beside(context, point), lookup.marks(context, point)
    name = ("" if turn is not None or marked.label else _safety_in_words(context, point)) or name_of(point, marked, turn)
    number = "" if turn is None else turn.name if turn.before == point.id else f"after:{turn.name}"
    identity, here = "" if point.id in name else point.id, None if turn is None else turn.n
    if number and point.more.machine:  # the line has no room for the id, too
        name, identity, here = name.removesuffix(f" of {printable(point.more.machine)}"), "", None
        number = f"{printable(lookup.name_of_machine(context, point))}:{number}"
    is_named = number and os.environ.get(launch.INSIDE)  # in a client, one name is enough
    about = [age_in_words(point.created_ns)] if turn is None else turn_details(turn)
    details = filter(None, (number, *about, "" if is_named else identity))
    return RestoreTarget(f"to {name} ({', '.join(details)})", here, point.created_ns, number or point.id)


def checkpoint_title(context: Context, point: Checkpoint) -> str:
    """A checkpoint in words: its name, its turn, its age and its id."""
    return target_of(context, point).name.removeprefix("to ")


def turn_title(turn: "Turn") -> str:
    """A turn in words: its number, prompt, age and id, and what a person has to know of its end."""
    from ..show.rows import end_in_words

    details = ", ".join(filter(None, ("" if turn.at_ns is None else age_in_words(turn.at_ns), turn.before)))
    end = f", {ended}" if (ended := end_in_words(turn)) else ""
    return f"{turn.name} {quoted_title(turn)} ({details}){end}"


def whole_prompt(context: Context, view: "TurnView", turn: "Turn") -> str:
    """All that was prompted in a turn. A checkpoint holds the start of a prompt only; the transcript has the rest."""
    from ...history import conversation

    text, point = turn.prompt, view.points.get(turn.before or "")
    if point is not None and not turn.subagent and len(text) >= _START_OF_PROMPT:
        text = conversation.full_prompt(context, point) or text
    return "\n".join((text, *(f"+ {more}" for more in turn.also)))


def _turn_beside(context: Context, point: Checkpoint) -> "Turn | None":
    """The turn, or the subagent, that a checkpoint is the state before or after of, if it can be read."""
    if not point.session_key[1] or (point.worktree != context.root.key and not point.more.machine):
        return None
    from ...history.worktree_timeline import WorktreeTimeline

    with suppress(errors.CasrewindError):
        place = ReferencePlace(point.worktree, lookup.name_of_machine(context, point), "")
        view = WorktreeTimeline(context, needs_operations=False, place=place).with_checkpoint(point.id)
        turn = view.turn_of(point.id)
        beside = [] if turn is None else [one for one in (turn, *turn.subagents) if point.id in (one.before, one.after)]
        return view.with_marks(beside[0]) if beside else None
    return None


def step_in_words(context: "Context", step: Step) -> str:
    """The restore of a step in words: the restore to 'it works' (03:43, 30 min ago)."""
    made, when = context.store.checkpoint(step.safety), ""
    what, number = _operation_in_words(context, step.target, _made_at_first(context, made))
    if made is not None:
        by = f", by {session_in_words(made.more.by_agent, made.more.by_session)}" if made.more.by_session else ""
        when = f"{time.strftime('%H:%M', time.localtime(made.created_ns // 1_000_000_000))}, {age_in_words(made.created_ns)}{by}"
    return f"{what} ({'; '.join(filter(None, (number, when)))})" if number or when else what


def _made_at_first(context: Context, made: Checkpoint | None) -> Checkpoint | None:
    """The safety checkpoint of the restore, revert or take that an undo or redo is about. `made`: the one of the undo or redo."""
    if made is None or made.more.op not in (UNDO, REDO):
        return made
    origin = find_origins(one for one in context.store.operations() if one.worktree == context.root.key).get(made.id)
    return made if origin is None else context.store.checkpoint(origin.safety) or made


def _operation_in_words(context: "Context", goal: str, made: Checkpoint | None) -> tuple[str, str]:
    """Returns (the restore, revert or take to the checkpoint `goal` in words, the number of its turn or ""). `made`: its safety
    checkpoint."""
    target = context.store.checkpoint(goal)
    turn = None if target is None else _turn_beside(context, target)
    number = "" if turn is None else f"{'' if turn.before == goal else 'after:'}{turn.name}"
    if made is not None and made.meta.get(TAKEN_FROM):
        return f"what was taken from {printable(os.path.basename(made.meta[TAKEN_FROM]))}", ""
    if made is not None and made.more.op == REVERT and target is not None:
        title = f'"{first_words(target.prompt)}"' if turn is None else quoted_title(turn)
        return f"the revert of {title}", number
    where = name_of(target, context.store.marks(goal), turn) if target is not None else printable(goal)
    return f"the restore to {where}", number


def _safety_in_words(context: Context, point: Checkpoint) -> str:
    """The name of a safety checkpoint: before the undo of the restore to 'it works'. "" if it does not say what it was made for."""
    if point.trigger != SAFETY or not point.more.op:
        return ""
    from ...history.worktree_timeline import WorktreeTimeline
    from ..show.rows import RowWriter

    return RowWriter(WorktreeTimeline(context, needs_operations=False).with_checkpoint(point.more.target)).safety_title(point)


def branches_in_words(context: Context, point: Checkpoint) -> str:
    """A checkpoint's branch and git's own in words, "" if they are equal or unknown. A restore changes no branch."""
    if not point.more.branch:
        return ""
    from ...worktree import git_head

    branch, _ = git_head.branch_and_commit(context.root.git_dir, context.root.common_dir)
    if branch in ("", point.more.branch):
        return ""
    return f", saved on branch {printable(point.more.branch)}, while git stays on {printable(branch)}"


def lost_rules(context: Context, plan: "Plan | Restored") -> "tuple[LostRule, ...]":
    """The rules that include something now, and that a plan removes."""
    touched = [action for action in plan.actions if can_protect_ignored_paths(action.path)]
    if not touched:
        return ()
    from ...upkeep import inclusion

    return inclusion.find_lost_protections(context, touched, plan.read)


def notes_above_plan(context: Context, plan: Plan) -> list[Line]:
    """What a person reads first: why it is asked again, and the rules that the plan takes back."""
    again = [Line(f"{plan.why_again}; nothing was changed. The plan now:")] if plan.why_again else []
    return [*again, *lost_rule_lines(lost_rules(context, plan))]


def interrupted_restore_details(context: Context) -> list[str]:
    """Details of an interrupted restore, [] if no restore was interrupted."""
    if not context.store.is_interrupted(context.root.key):
        return []
    from ...upkeep import status  # a restore that was interrupted is rare

    journal = status.status(context).journal
    if journal is None:
        return ["What it was is damaged: taking it back sets it aside."]
    begun = age_in_words(journal.created_ns)
    return [
        f"The {journal.op} of {journal.target}, begun {begun}, is half done: some paths are as before, some as they should become.",
        f"The state before is {journal.safety}. What was edited since is kept, and named, whichever way it goes.",
    ]
