"""What the module of an agent offers."""

from ..model.cursor import Cursor
from ..typed import Protocol
from .lines import Value
from .profile import Profile
from .prompts import Prompt


class Agent(Protocol):
    """An agent. `data` always is the bytes of a transcript; whatever they are, nothing but AgentError is raised.

    What `cut` and `cut_at` give is the transcript's own lines, in order, byte for byte.
    """

    @property
    def PROFILE(self) -> Profile:  # noqa: N802 - a constant of the module
        """What its client calls things."""

    def kind_of(self, value: Value | None, /) -> str:
        """The kind of a line, one of lines.KINDS."""

    def prompts(self, data: bytes, /, *, every: bool = False) -> list[Prompt]:
        """What the person typed, in conversation order; branches that were abandoned are left out unless `every`."""

    def cut(self, data: bytes, prompt: Prompt, /) -> bytes | None:
        """The transcript as it was before a prompt; None when nothing was said before: that is a new session."""

    def cut_at(self, data: bytes, cursor: Cursor, trigger: str, /) -> bytes | None:
        """The transcript as it was at a checkpoint that was not made for a prompt of it; None as for `cut`.

        Raises AgentError when the place is not in this transcript (any more).
        """

    def title(self, data: bytes, /) -> str:
        """What the session is called, else the beginning of its first prompt, else ""."""

    def fork(self, data: bytes, cut: bytes, session: str, title: str = "", /) -> bytes:
        """A new session's transcript: `cut` of `data` under the id `session`; `title` instead of the old one's."""
