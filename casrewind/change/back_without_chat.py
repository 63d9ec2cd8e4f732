"""Takes the files back to before a turn. Its conversation cannot be read, or it is gone.

The danger prevented here: a person asks for the files alone, and is refused because there is no conversation.
"""

from .. import errors
from ..context import Context
from ..history import turns_elsewhere
from ..history.conversation import find_prompt, whole_session
from ..history.turn_view import TurnView
from ..model.checkpoint import Checkpoint
from ..model.turn_records import Turn
from . import rewind
from .restore import NewKeeper
from .rewind import Confirming, Rewound, restore_and_find_foreign


def find_turn(
    context: Context, wanted: int | str | None, session: str = "", preferred: str = ""
) -> tuple[Turn, Checkpoint] | None:
    """Find the turn `wanted` of the list, and the checkpoint before it. The arguments are those of conversation.find_prompt, which
    needs the turn's conversation. None if there is no such turn, or if it is not of `session`.

    Raises CheckpointNotFound if there is no turn with that number, or if the state before it was forgotten or not saved."""
    view = TurnView(context)
    session = whole_session(context, session)
    turns = [turn for turn in view.turns if turn.session == session] if session else [*view.turns]
    if wanted is not None:
        turns = [turn for turn in turns if turn == view.find_turn(f"@{str(wanted).removeprefix('@')}")]
    turns = [turn for turn in turns if preferred and turn.session == preferred] or turns
    point = view.find_state(f"@{turns[0].n}")[1] if turns else None
    return (turns[0], point) if point is not None else None


def back(
    context: Context, turn: Turn, point: Checkpoint, *, dry_run: bool = False, keeper: NewKeeper | None = None,
    confirm: Confirming | None = None,
) -> Rewound:  # fmt: skip
    """Take the files back to before a turn, `point`, where its conversation cannot be had. Raises as `restore`."""
    own = frozenset({turn.session})
    restored, foreign = restore_and_find_foreign(context, point, own, dry_run=dry_run, keeper=keeper, confirm=confirm)
    return Rewound(None, (), restored, foreign, (), dry_run=dry_run, transcript="")


def back_to_prompt(
    context: Context, target: int | str | None, session: str, *, files: bool, chat: bool, in_place: bool, nearest: bool,
    confirm: Confirming | None,
) -> Rewound:  # fmt: skip
    """Go back to before a prompt, as `rewind.back`; to before its turn where the conversation cannot be had and is not asked
    for. Raises as `rewind.back`."""
    try:
        found = find_prompt(context, target, session)
    except errors.AgentError:
        if target is None or chat:
            turns_elsewhere.refuse_if_of_session(context, session, "")
        alone = None if chat or in_place else find_turn(context, target, session)
        if alone is None:
            raise
        return back(context, *alone, confirm=confirm)
    return rewind.back(context, found, both=files, chat=chat, in_place=in_place, nearest=nearest, confirm=confirm)
