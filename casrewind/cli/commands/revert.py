"""casrewind revert."""

from collections.abc import Sequence

from ... import errors
from ..._typing import TYPE_CHECKING
from ...change import path_merger, revert
from ...change.worktree_change import WorktreeChange
from ...history.checkpoint_names import turn_of
from ...history.conversation import whole_session
from ...messages import plural, printable, session_in_words, shell_quoted
from ...model.plan import Plan
from ...model.turn_records import NOT_SAVED
from ..grammar.options import (
    ASSUME_YES,
    DRY_RUN,
    HUNKS,
    JSON,
    OPEN_FILES,
    PATHS,
    REF,
    SKIP_DAMAGED,
    Command,
    Option,
    choice,
    flag,
)
from ..plan.carry_out import CHANGES, ask_for_hunks, carry_out_and_print, refuse_hunk_options
from ..plan.facts import turn_title
from ..plan.question import ChangeRequest, PlanQuestion
from ..show import restored
from ..show.text import cut_to
from ..terminal.questions import agreed, must_ask_or_raise
from . import OK, Done, words

if TYPE_CHECKING:
    from ...change.chosen_edits import ChosenEdits
    from ...context import Context
    from ...model.turn_records import Turn
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind revert @2", "casrewind revert @2 src/till.py", "casrewind revert @4..@2"),
    options=(
        REF._replace(help="a turn (@2), a range of turns (@4..@2), or a subagent of a turn (@2.1)", nargs="?"),
        PATHS,
        Option(("--session",), "reverse all turns of this agent session: its id, or 4 characters of it", "ID"),
        choice("conflicts", "theirs", "--theirs", "if the same lines were edited later: restore the lines from before the turn"),
        choice(
            "conflicts", "markers", "--markers", "if the same lines were edited later: write all versions between markers"
        ),
        flag("--shared", "also reverse what another turn may have changed at the same time, or what you may have changed after Esc"),
        flag("--running", "also reverse what a running turn has changed so far"),
        flag("--known", "with several turns: skip those with unknown changes"),
        HUNKS, SKIP_DAMAGED, DRY_RUN, OPEN_FILES, ASSUME_YES, JSON,
    ),
    usage=("[OPTIONS] @N [--] [PATH ...]", "[OPTIONS] @N..@M [--] [PATH ...]", "[OPTIONS] --session ID [--] [PATH ...]"),
    defaults={"conflicts": ""},
    more=(
        "If a file was edited later, revert merges it line by line. If the same lines were edited later, revert leaves the file alone. "
        "It also keeps files that were not captured before the turn. To undo a revert, type casrewind undo."
    ),
    behind="paths go",
    saves=True,
)

_PROMPT = 24  # characters of a prompt in the title of several turns


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind revert."""
    refuse_hunk_options(options)
    named = words.Words(context, options)
    turns, name = _named_turns(context, options, named)
    turns, unknown = _known_turns(options, turns)
    points = [point for turn in turns for point in named.known_states(turn)]
    scope = words.paths_of(context, [*options.paths, *options.rest], points, options, worktree=turns[0].to_now)
    changes = [change for turn in turns for change in named.with_changes(turn).changes or ()] if options.paths else []
    another = named.first_other_turn(options.paths, changes)
    if another is not None:
        several = f"casrewind revert {_range_with(turns, another)} reverses all from one to the other"
        raise errors.UsageError(f"{another} is another turn, and after a turn revert takes paths", several)
    oldest = named.view.points[turns[-1].before or ""]
    moved = named.why_numbers_moved(turns[0].name)
    name = f"{name}, chosen hunks only" if options.patch else name
    is_asked = not (options.dry_run or options.patch) and (must_ask_or_raise(options, CHANGES) or bool(moved))
    edits: ChosenEdits | None = None
    one = turns[0].n if len(turns) == 1 else None
    request = ChangeRequest(
        lambda: f"revert {name}", " ".join(("revert", *(turn.id for turn in turns))), anchor=oldest.id, moved=moved,
        target=restored.RestoreTarget(name, one, oldest.created_ns), notes=[*restored.unknown_lines(unknown)],
    )  # fmt: skip
    question = PlanQuestion(context, options, done, request, is_asked=is_asked, is_shown=options.patch)

    def agreed_twice(plan: Plan) -> bool:
        marked = [item.path for item in plan.merged if item.conflicts]
        return bool(question(plan)) and (not marked or agreed(f"Write conflict markers into {restored.first_names(marked)}?"))

    asking = agreed_twice if options.conflicts == path_merger.MARKERS and question.waits else question

    def prepare() -> WorktreeChange:
        return revert.prepare_revert(
            context, named.view, turns, scope, shared=options.shared, running=options.running, conflicts=options.conflicts,
            skip_damaged=options.skip_damaged, edits=edits,
        )  # fmt: skip

    if options.patch:
        edits = ask_for_hunks(context, options, done, prepare().plan(), moved)
        if edits == {} and not options.json:
            question.print_that_nothing_changed()
            return OK
    facts = {
        "running": any(turn.running for turn in turns), "mixed": any(turn.mixed for turn in turns),
        "turns": [turn.n for turn in turns], "subagent": turns[0].subagent or None, "unknown_turns": [turn.n for turn in unknown],
    }  # fmt: skip
    return carry_out_and_print(prepare, options, done, question, facts, confirm=asking, is_titled=options.dry_run)


def _named_turns(context: "Context", options: "ParsedOptions", named: words.Words) -> "tuple[list[Turn], str]":
    """The turns that the words of a revert name, newest first, and what the title says of them. The paths are left in
    `options.paths`."""
    word = options.ref
    if options.session is not None:
        if word is not None:  # it is a path
            options.paths, options.ref = [word, *options.paths], None
        session = whole_session(context, options.session)
        turns = [turn for turn in named.view.turns if turn.session == session]
        if not turns:
            what = f"session {printable(options.session)!r} has no turns here"
            raise errors.CheckpointNotFound(what, "casrewind list shows the sessions")
        return turns, f"{session_in_words('session', session)} ({_turns_in_words(turns)})"
    if word is None:
        raise errors.UsageError("revert: which turn?", "casrewind list shows them, casrewind revert @1 reverses the newest")
    ends = [end.removeprefix("@") for end in word.split("..")]
    if len(ends) == 2 and all(end.isascii() and end.isdigit() for end in ends):
        first, last = (named.view.find_turn(f"@{end}").n for end in ends)
        if first < last:
            what = f"{word}: the older turn comes first, and it has the higher number"
            raise errors.UsageError(what, f"casrewind revert @{last}..@{first}")
        turns = list(named.view.turns[last - 1 : first])
        return turns, f"@{first}..@{last} ({_turns_in_words(turns)})"
    side = named.side_named(word)
    if named.view.machine:
        what = f"{word} is a turn of {named.view.machine}: revert reverses turns of this machine"
        raise errors.UsageError(what, f"casrewind restore {shell_quoted(word)} restores the state before it")
    if side.turn is None or side.side != "before" or side.point is None:
        raise errors.UsageError("revert takes turns, as in @2 or @4..@2", f"casrewind restore {shell_quoted(word)} restores a state")
    return [side.turn], turn_title(named.view.with_marks(side.turn))


def _turns_in_words(turns: "Sequence[Turn]") -> str:
    """Several turns in words."""
    ends = [cut_to(turn.title, _PROMPT) for turn in (turns[-1], turns[0])]
    return f'{plural(len(turns), "turn")}: "{ends[0]}"' + (f' to "{ends[1]}"' if len(turns) > 1 else "")


def _known_turns(options: "ParsedOptions", turns: "Sequence[Turn]") -> "tuple[list[Turn], list[Turn]]":
    """Returns (turns with a known change, turns with an unknown one). Without --known, an unknown change raises
    CheckpointNotFound."""
    unknown = [turn for turn in turns if turn.not_saved or turn.before is None or not (turn.after or turn.to_now)]
    known = [turn for turn in turns if turn not in unknown]
    if unknown and len(turns) > 1 and not (options.known and known):
        one = unknown[0]
        why = NOT_SAVED if one.not_saved else f"the state {'before' if one.before is None else 'after'} it was forgotten"
        raise errors.CheckpointNotFound(
            f"what {one.name} changed is not known: {why}",
            "--known reverses the other turns" if known else "casrewind list shows what is known"
        )
    return (known, unknown) if len(turns) > 1 else (list(turns), [])


def _range_with(turns: "Sequence[Turn]", another: str) -> str:
    numbers = sorted([turns[0].n, turns[-1].n, *([named.number] if (named := turn_of(another)) else [])])
    return f"@{numbers[-1]}..@{numbers[0]}"
