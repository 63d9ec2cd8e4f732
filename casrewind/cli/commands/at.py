"""casrewind at: the checkpoint of a session's entry. A client's extension runs it before it asks a person."""


from ... import errors
from ..._typing import TYPE_CHECKING
from ...change.restore import prepare_restore
from ...context import Context
from ...history import conversation, lookup
from ...history.changes_back import ChangesBack
from ...history.checkpoint_names import label_of
from ...history.turn_view import TurnView
from ...messages import age_in_words, plural
from ..grammar.options import JSON, NUMBER, Command, Option, positive_number
from ..show.restored import first_changes, written_and_removed
from ..terminal.lines import print_json, print_line
from . import OK, Done

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions
    from ..show.shapes import Shape

COMMAND = Command(
    examples=("casrewind at --session 01a20188 --entry f6b36a33",),
    options=(
        Option(("--session",), "the session's id, as the client names it", "ID"),
        Option(("--entry",), "the ids of the entry and its parts, as the client names them, separated by commas", "ID", group="at"),
        Option(
            ("--turn",),
            "the prompt of turn N of casrewind list, which must belong to the session",
            "N",
            convert=positive_number,
            group="at",
        ),
        NUMBER._replace(help="show the newest N prompts of the session, and what a restore to before each prompt would change", group="at"),
        JSON,
    ),
    more="Also shows how many paths a restore would change. An agent's client runs this command before it asks the user.",
)

_NAMED = 5
"""Paths that a question in a client names: its answers have to stay on the screen."""


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind at: the checkpoint of a session's entry. A client's extension runs this before it asks a person."""
    if not options.session:
        raise errors.UsageError("at needs --session ID, the session's id as the client names it")
    if options.number is not None:
        return _print_prompts(context, options, done)
    entries = tuple(filter(None, (options.entry or "").split(",")))
    if options.turn is not None:
        entries = (conversation.prompt_of_turn(context, options.turn, options.session),)
    point = lookup.checkpoint_of_entry(context, options.session, entries)
    written, removed, first, problem = 0, 0, "", None
    if point is not None:
        try:
            actions = prepare_restore(context, point).plan().actions
            written, removed = written_and_removed(actions)
            first = "\n".join(line.text for line in first_changes(actions, _NAMED))
        except errors.CasrewindError as error:
            problem = str(error)  # a restore would be refused, and that is an answer
    done()
    if not options.json:
        if point is None:
            print_line("no checkpoint was made there")
        elif problem is not None:
            print_line(f"{point.id}: casrewind would refuse a restore: {problem}")
        else:
            print_line(f"{point.id}: a restore would write {plural(written, 'path')} and remove {removed}")
        return OK
    marks = None if point is None else lookup.marks(context, point)
    undo = context.store.history(context.root.key).undo
    print_json(
        {
            "checkpoint": None if point is None else point.id,
            "entry": entries[0] if entries else None,
            "written": written,
            "removed": removed,
            "plan": first,
            "problem": problem,
            "label": None if point is None or marks is None else label_of(point, marks) or None,
            "pinned": marks is not None and marks.pinned,
            "checkpoints": sum(found.trigger != "safety" for found, _ in lookup.checkpoints_of(context)),
            "undo": bool(undo),
            "is_restored": point is not None and bool(undo) and undo[-1].target == point.id,
        }
    )
    return OK


def _print_prompts(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """Print the newest prompts of a session. The worktree is scanned once for all of them."""
    most = options.number or 0
    found: list[Shape] = []
    mine = conversation.session_and_ancestors(context, conversation.whole_session(context, options.session or ""))
    turns = [turn for turn in TurnView(context).turns if turn.session in mine and turn.prompt_id and turn.before][:most]
    back = ChangesBack(context) if turns else None
    for turn in turns:
        if back is None or (counts := back.count(turn)) is None:
            continue  # nobody can go there
        age = "" if turn.started_ns is None else age_in_words(turn.started_ns)
        found.append({"n": turn.n, "entry": turn.prompt_id, "prompt": turn.prompt, "age": age, **counts._asdict()})
    done()
    if options.json:
        print_json({"turns": found})
    for row in () if options.json else found:
        print_line(f"@{row['n']}  {row['written']} written, {row['removed']} removed  {row['age']}  {' '.join(str(row['prompt']).split())}")
    return OK
