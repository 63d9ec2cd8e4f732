"""Takes the files back to before a turn. Its conversation cannot be read, or it is gone.

The danger prevented here: a person asks for the files alone, and is refused because there is no conversation.
"""

import itertools

from .. import errors
from .._typing import NamedTuple
from ..context import Context
from ..history import turns_elsewhere
from ..history.conversation import find_prompt, whole_session
from ..history.taken_back_turns import AllTakenBack, skipped_in_words, taken_back_error
from ..history.turn_view import TurnView
from ..model.checkpoint import Checkpoint
from ..model.turn_records import Turn
from . import rewind
from .restore import NewKeeper
from .rewind import Confirming, Rewound, restore_and_find_foreign


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


def back(
    context: Context, found: FoundTurn, *, dry_run: bool = False, keeper: NewKeeper | None = None, confirm: Confirming | None = None
) -> Rewound:
    """Take the files back to before a turn whose conversation cannot be had. Raises as `restore`, and AgentError as `rewind.back`."""
    own = frozenset({found.turn.session})
    refused = taken_back_error(found.turn.n) if found.is_taken_back else None
    restored, foreign = restore_and_find_foreign(
        context, found.point, own, dry_run=dry_run, keeper=keeper, confirm=confirm, refused=refused
    )
    skipped = skipped_in_words(found.skipped, found.turn.n)
    notes = (skipped,) if skipped else ()
    return Rewound(None, (), restored, foreign, notes, dry_run=dry_run, transcript="")


def back_to_prompt(
    context: Context, target: int | str | None, session: str, *, files: bool, chat: bool, in_place: bool, nearest: bool,
    confirm: Confirming | None,
) -> Rewound:  # fmt: skip
    """Go back to before a prompt, as `rewind.back`; to before its turn where the conversation cannot be had and is not asked
    for. Raises as `rewind.back`."""
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
        return back(context, alone, confirm=confirm)
    return rewind.back(context, found, both=files, chat=chat, in_place=in_place, nearest=nearest, confirm=confirm)
