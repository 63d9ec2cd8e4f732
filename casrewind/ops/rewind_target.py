"""Finds the prompt that a rewind names: the Nth newest of one conversation, or the turn `@N` of the list.

The danger prevented here: a rewind to a prompt of another conversation. `N` counts the turns of one conversation, `@N`
counts the turns of all sessions in the worktree. With several sessions the two differ, so both are shown.
"""

from collections.abc import Sequence

from .. import agents, errors, fsio
from .._typing import NamedTuple
from ..agents import session_files
from ..agents.prompts import Prompt
from ..model.checkpoint import Checkpoint
from ..model.turn_records import Turn
from . import conversation as conversations
from .context import Context
from .conversation import Conversation
from .turn_view import TurnView

_SESSION = 8  # characters of a session id in output
_WORDS = 40  # characters of a prompt in output


class RewindTarget(NamedTuple):
    """A prompt to go back to.

    `prompts` and `points`: all prompts of the conversation and the checkpoint of each, or None. `at`: the index of the
    first prompt that is removed. `number`: the turn's number in the conversation, `turn`: its number in the list of all
    turns, 0 = not in the list. `live`: the sessions of this worktree with a running client.
    """

    conversation: Conversation
    prompts: tuple[Prompt, ...]
    points: tuple[Checkpoint | None, ...]
    at: int
    number: int
    turn: int
    live: frozenset[tuple[str, str]]

    @property
    def prompt(self) -> Prompt:
        """The prompt itself."""
        return self.prompts[self.at]

    @property
    def name(self) -> str:
        """The conversation in words: claude 355c4eec."""
        return _name(self.conversation.agent.PROFILE.name, self.conversation.session)

    @property
    def differs(self) -> bool:
        """True if the two numbers of the turn differ."""
        return self.turn not in (0, self.number)

    @property
    def was_seen(self) -> bool:
        """True if a hook made a checkpoint in this conversation."""
        return any(self.points) or any(point.session in self.conversation.lineage for point in self.conversation.points)


def find(context: Context, homes: session_files.Homes, wanted: int | str, session: str, preferred: str) -> RewindTarget:
    """The prompt that `wanted` means: a number of 1 or more, or `@N`. `session` and `preferred`: see conversation.find.

    Raises AgentError (no conversation, too few prompts, the turn is not in the conversation), CheckpointNotFound (no
    turn `@N`).
    """
    view = TurnView(context)
    turn = view.turn(wanted) if isinstance(wanted, str) else None
    conversation = conversations.find(context, homes, session or ("" if turn is None else turn.session), preferred)
    prompts = conversation.agent.prompts(conversation.data)
    if not prompts and conversation.stored:
        raise errors.AgentError(
            f"the transcript {fsio.printable(conversation.path)} is gone or was replaced, and what {conversation.stored} stored of it "
            f"holds no prompt"
        )
    if not prompts:
        raise errors.AgentError("nothing was asked in this conversation yet: there is nothing to go back to")
    points = conversations.bound(conversation, prompts)
    opening = _opening(view, conversation, prompts, points)
    if turn is None:
        assert isinstance(wanted, int)
        if not 1 <= wanted <= len(opening):
            has = f"{len(opening)} prompt{'' if len(opening) == 1 else 's'} of a person"
            raise errors.AgentError(f"the conversation has {has}: it is too short to go back {wanted}")
        index = opening[-wanted]
    else:
        index = _index_of(turn, conversation, prompts, points, opening)
    own = points[index]
    if own is not None and (found := view.turn_of(own.id)) is not None:
        turn = found
        if turn.before is not None and turn.before != own.id:
            points[index] = view.points[turn.before]  # a waiting prompt: its turn began at the end of the turn in front
    number = len(opening) - opening.index(index)
    return RewindTarget(conversation, tuple(prompts), tuple(points), index, number, 0 if turn is None else turn.n, view.live)


def _opening(view: TurnView, conversation: Conversation, prompts: Sequence[Prompt], points: Sequence[Checkpoint | None]) -> list[int]:
    """The indices of the prompts that opened a turn. A prompt that was typed while a turn ran belongs to that turn. If
    it waited for the turn's end, it belongs to the next turn, with all prompts that waited."""
    shares = agents.turn_field(conversation.agent.PROFILE.name) == "prompt_id"
    turns = [None if point is None else view.turn_of(point.id) for point in points]
    found = []
    for at, prompt in enumerate(prompts):
        is_same = at > 0 and shares and prompt.prompt_id != "" and prompt.prompt_id == prompts[at - 1].prompt_id
        waited = at > 0 and (turn := turns[at]) is not None and (other := turns[at - 1]) is not None and turn.id == other.id
        if at == 0 or not (prompt.queued or is_same or waited):
            found.append(at)
    return found


def _index_of(
    turn: Turn, conversation: Conversation, prompts: Sequence[Prompt], points: Sequence[Checkpoint | None], opening: Sequence[int]
) -> int:
    """The index of the prompt that opened a turn of the list. Raises AgentError if the conversation lacks it."""
    mine = frozenset(turn.checkpoints)
    for at, point in enumerate(points):
        if point is not None and point.id in mine:
            return max(start for start in opening if start <= at)
    for at in opening:
        if turn.prompt_id and prompts[at].prompt_id == turn.prompt_id:
            return at
    title = f'@{turn.n} "{shortened(turn.prompt)}"'
    if (turn.agent, turn.session) != (conversation.agent.PROFILE.name, conversation.session):
        here = _name(conversation.agent.PROFILE.name, conversation.session)
        raise errors.AgentError(
            f"{title} is a turn of {_name(turn.agent, turn.session)}, and this conversation is {here}: nothing was changed; go back "
            f"in that conversation, or in a terminal without --session"
        )
    raise errors.AgentError(
        f"the prompt of {title} is no longer in the conversation {_name(turn.agent, turn.session)}: nothing was changed; casrewind "
        f"restore @{turn.n} restores the files of that moment"
    )


def _name(agent: str, session: str) -> str:
    return f"{agent} {fsio.printable(session[:_SESSION])}"


def shortened(text: str) -> str:
    """The first words of a prompt, in one line."""
    words = fsio.printable(" ".join(text.split()))
    return words if len(words) <= _WORDS else words[: _WORDS - 1].rstrip() + "…"
