"""Takes the files back to before a turn. Its conversation cannot be read, or it is gone.

The danger prevented here: a person asks for the files alone, and is refused because there is no conversation.
"""

import itertools

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..history import turns_elsewhere
from ..history.conversation import find_prompt, whole_session
from ..history.provenance import OtherSessions
from ..history.taken_back_turns import AllTakenBack, skipped_in_words, taken_back_error
from ..history.turn_view import TurnView
from ..model.checkpoint import Checkpoint
from ..model.turn_records import Turn
from . import rewind
from .restore import prepare_restore
from .rewind import RewindChange, Rewound


class FoundTurn(NamedTuple):
    """A turn to go back to, and the checkpoint before it. `skipped` and `is_taken_back`: see conversation.RewindTarget."""

    turn: Turn
    point: Checkpoint
    skipped: tuple[int, ...]
    is_taken_back: bool


def find_turn(context: Context, wanted: int | str | None, session: str = "", preferred: str = "") -> FoundTurn | None:
    """Find the turn `wanted` of the list, and the checkpoint before it. The arguments are those of conversation.find_prompt, which
    needs the turn's conversation. None if there is no such turn, or if it is not of `session`.

    Raises AllTakenBack if all turns are taken back already, CheckpointNotFound if there is no turn with that number, or if the state
    before it was forgotten or not saved."""
    view = TurnView(context)
    session = whole_session(context, session)
    turns = [turn for turn in view.turns if turn.session == session] if session else [*view.turns]
    if wanted is not None:
        turns = [turn for turn in turns if turn == view.find_turn(f"@{str(wanted).removeprefix('@')}")]
    turns = [turn for turn in turns if preferred and turn.session == preferred] or turns
    if not turns:
        return None
    taken = [turn.n for turn in itertools.takewhile(lambda turn: view.with_changes(turn).taken_back, turns)]
    if wanted is None and len(taken) == len(turns):
        raise AllTakenBack("this project" if not session else f"session {session}")
    turn, skipped = (turns[0], ()) if wanted is not None else (turns[len(taken)], tuple(taken))
    point = view.find_state(f"@{turn.n}")[1]
    return None if point is None else FoundTurn(turn, point, skipped, is_taken_back=wanted is not None and bool(taken))


def prepare_turn_back(context: Context, found: FoundTurn, *, keep_edits: bool = False) -> RewindChange:
    """The change that takes the files back to before a turn. Its conversation cannot be read. Raises as `restore`; AgentError as
    `rewind.prepare_back`."""
    refused = taken_back_error(found.turn.n) if found.is_taken_back else None
    others = OtherSessions(context, found.point, frozenset({found.turn.session}))
    notes = tuple(filter(None, (skipped_in_words(found.skipped, found.turn.n),)))
    planned = Rewound(None, (), None, notes, dry_run=True, transcript="")
    files = prepare_restore(context, found.point, keep_edits=keep_edits, others=others)
    return RewindChange(context, files, None, planned, refused=refused)


def prepare_prompt_back(
    context: Context, target: int | str | None, session: str, *, files: bool, chat: bool, in_place: bool, nearest: bool
) -> RewindChange:
    """The change that goes back to before a prompt, as `rewind.prepare_back`; to before its turn where the conversation cannot be had and
    is not asked for. Raises as `rewind.prepare_back`."""
    try:
        found = find_prompt(context, target, session, files=files)
    except AllTakenBack:
        raise
    except errors.AgentError:
        if target is None or chat:
            turns_elsewhere.refuse_if_of_session(context, session, "")
        alone = None if chat or in_place else find_turn(context, target, session)
        if alone is None:
            raise
        return prepare_turn_back(context, alone)
    return rewind.prepare_back(context, found, both=files, chat=chat, in_place=in_place, nearest=nearest)
