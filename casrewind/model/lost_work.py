"""What a plan takes away that a person may miss: edits that no turn made, and files that no other checkpoint has."""

from .._typing import NamedTuple


class OutsideEdits(NamedTuple):
    """Paths of a plan with edits of a person, sorted. `proved`: edited outside of all turns. `possible`: others that a turn
    without a seen end changed; an edit after that turn counts as the turn's. `can_stay`: a restore can keep them.
    `is_of_machine`: the target is another machine's. `is_of_undo`: they were edited since the restore, by whomever."""

    proved: tuple[bytes, ...]
    possible: tuple[bytes, ...]
    can_stay: bool = True
    is_of_machine: bool = False
    is_of_undo: bool = False


NO_EDITS = OutsideEdits((), ())


class OnlyCopy(NamedTuple):
    """A removed file that may be the only copy of an ignored file. `source`: where that was, b"" = unknown."""

    path: bytes
    source: bytes
