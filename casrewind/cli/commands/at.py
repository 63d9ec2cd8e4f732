"""casrewind at: the checkpoint of a session's entry. A client's extension runs it before it asks a person."""


from ... import errors
from ..._typing import TYPE_CHECKING
from ...context import Context
from ...messages import plural
from ..grammar.options import JSON, Command, Option, positive_number
from ..terminal.lines import print_json, print_line
from . import OK, Done

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind at --session 01a20188 --entry f6b36a33",),
    options=(
        Option(("--session",), "the client's id of the session", "ID"),
        Option(("--entry",), "the client's ids of the entry and of its parts, separated by commas", "ID", group="at"),
        Option(
            ("--turn",),
            "the prompt of turn N of casrewind list, which must be of the session",
            "N",
            convert=positive_number,
            group="at",
        ),
        JSON,
    ),
    more="Also shows how many paths a restore would change. An agent's client asks this before it asks the user.",
)

_NAMED = 5
"""Paths that a question in a client names: its answers have to stay on the screen."""


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind at: the checkpoint of a session's entry. A client's extension runs this before it asks a person."""
    from ...change.restore import prepare_restore
    from ...history import lookup
    from ...history.checkpoint_names import label_of
    from ..show.restored import first_changes, written_and_removed

    if not options.session:
        raise errors.UsageError("at needs --session ID: the client's id of the session")
    entries = tuple(filter(None, (options.entry or "").split(",")))
    if options.turn is not None:
        from ...history import conversation

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
            print_line(f"{point.id}: a restore would be refused: {problem}")
        else:
            print_line(f"{point.id}: a restore would write {plural(written, 'path')} and remove {removed}")
        return OK
    marks = None if point is None else lookup.marks(context, point)
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
            "undo": bool(context.store.history(context.root.key).undo),
        }
    )
    return OK
