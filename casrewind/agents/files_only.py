"""Clients with conversations that only they can read: checkpoints have the files, and no conversation is rewound."""

from .._typing import NoReturn
from ..errors import AgentError
from ..model.cursor import Cursor
from . import transcript
from .profiles import Profile
from .prompts import Prompt
from .transcript import Value


class FilesOnlyAgent:
    """An agent without transcripts. Everything about a conversation raises AgentError."""

    def __init__(self, profile: Profile) -> None:
        """`profile` has the client's names and paths."""
        self._profile = profile

    @property
    def PROFILE(self) -> Profile:  # noqa: N802 - as the constant of an agent's module
        """The client's names and paths."""
        return self._profile

    def kind_of(self, value: Value | None, /) -> str:  # noqa: ARG002 - no line is known
        """The kind of a line: unknown."""
        return transcript.UNKNOWN

    def prompts(self, data: bytes, /, *, every: bool = False) -> list[Prompt]:  # noqa: ARG002 - none can be read
        """No prompts."""
        return []

    def cut(self, data: bytes, prompt: Prompt, /) -> bytes | None:  # noqa: ARG002 - as above
        """Raise AgentError."""
        self.refuse()

    def cut_at(self, data: bytes, cursor: Cursor, trigger: str, /) -> bytes | None:  # noqa: ARG002 - as above
        """Raise AgentError."""
        self.refuse()

    def title(self, data: bytes, /) -> str:  # noqa: ARG002 - as above
        """No title."""
        return ""

    def fork(
        self, data: bytes, cut: bytes, session: str, title: str = "", /, *, original: str = "", root: str = ""  # noqa: ARG002
    ) -> bytes:
        """Raise AgentError."""
        self.refuse()

    def fork_path(self, transcript: str, session: str, fork: bytes, /) -> str:  # noqa: ARG002 - as above
        """Raise AgentError."""
        self.refuse()

    def in_place(self, data: bytes, cut: bytes, /) -> bytes:  # noqa: ARG002 - as above
        """Raise AgentError."""
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise the AgentError that explains the situation."""
        raise AgentError(
            f"the conversations of {self._profile.title} are not known to casrewind: casrewind restore REF restores the files of "
            "a checkpoint"
        )
