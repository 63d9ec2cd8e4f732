"""The checkpoints before and after a command that a person runs: a turn of its own.

In the shell of an agent the command belongs to the agent's turn. Then both are saves by hand, as others there.
"""

import os
import shlex
import time
from collections.abc import Sequence

from ..agents import client_process
from ..context import Context
from ..history.checkpoint_names import refuse_ambiguous_label
from ..model.checkpoint import PROMPT, RUN, Circumstances
from ..store.agent_sessions import AgentSession
from .save import Moment, Saved, save, save_by_hand


class CommandTurn:
    """The turn of one command. Call `begin` before the command and `end` after it."""

    def __init__(self, context: Context, arguments: Sequence[str], message: str = "") -> None:
        """`message` stands for the command line in every list, and is the label of both checkpoints. Raises UsageError
        for a label that reads as another reference."""
        if message:
            refuse_ambiguous_label(message)
        self._context, self._message = context, message
        self._prompt = message or shlex.join(arguments)
        self._opened = ""

    def save_before(self) -> Saved:
        """Make the checkpoint before the command. Raises as `save`."""
        if self._context.shell[1]:
            return self._save_by_hand("before")
        before = save(self._context, self._moment_of_side(PROMPT, "before", Circumstances(tells_ends=True))._replace(opens_turn=True))
        self._opened = before.checkpoint.id
        self._context.store.sessions.record(self._own_session_row())
        return before

    def save_after(self) -> Saved:
        """Make the checkpoint after the command. Raises as `save`."""
        if self._context.shell[1]:
            return self._save_by_hand("after")
        after = save(self._context, self._moment_of_side("turn_end", "after", Circumstances(turn=self._opened, tells_ends=True)))
        self._context.store.sessions.forget(RUN, self._opened)
        return after

    def _moment_of_side(self, trigger: str, side: str, more: Circumstances) -> Moment:
        label = f"{side}: {self._message}" if self._message else ""
        return Moment(trigger, label, prompt=self._prompt, agent=RUN, more=more)

    def _save_by_hand(self, side: str) -> Saved:
        return save_by_hand(self._context, f"{side}: {self._message or self._prompt[:200]}", described=not self._message)

    def _own_session_row(self) -> AgentSession:
        """This process, by which a list knows that the turn still runs."""
        process = client_process.client_process(os.getpid())
        return AgentSession(
            agent=RUN,
            session=self._opened,
            transcript="",
            root=self._context.root.path,
            worktree=self._context.root.key.hex(),
            updated_ns=time.time_ns(),
            event="",
            running=True,
            pid=0 if process is None else process.pid,
            pid_start="" if process is None else process.start,
            env_file="",
            parent="",
        )
