"""What is wrong with a piece that cannot be read."""

from .. import errors


class PieceDamaged(errors.RemoteError):
    """A piece does not have the bytes that its machine wrote, or cannot be read for another reason. `state` says which."""

    state = "is damaged or cut"


class PieceForeign(PieceDamaged):
    """What has the name of a piece neither begins nor ends as one: no piece of casrewind was put there."""


class PieceNewer(PieceDamaged):
    """A piece of a later format."""

    state = "was written by a newer casrewind: upgrade casrewind"


class PieceOfNewerKey(PieceNewer):
    """A piece that is sealed with a later master key."""

    state = "was sealed with a newer key: ask for that key"


class PieceGone(PieceDamaged):
    """A piece that was deleted since it was listed."""

    state = "was deleted just now: pull again"


class PieceMissing(PieceDamaged):
    """A piece that was deleted, or emptied, and a list that was made afterwards has nothing that took its place: nobody does that who keeps
    what was pushed."""

    state = "is missing"
