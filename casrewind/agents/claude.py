"""Claude Code.

The danger prevented here: a conversation that comes back with turns in it that the person had thrown away, or one that
the client refuses. A transcript is a tree (see claude_lines): it is cut behind the parent of a prompt, never at the bytes
in front of it, and not inside a batch of tool calls.
"""

from collections.abc import Sequence

from .. import errors
from ..model.cursor import Cursor
from . import claude_lines, cursors, lines, profiles, sessions
from .claude_lines import Row, branch, in_front, places, rows
from .prompts import Prompt

PROFILE = profiles.CLAUDE
kind_of = claude_lines.kind_of

_SAID = frozenset({lines.PROMPT, lines.COMMAND, lines.TASK_NOTIFICATION, lines.ASSISTANT, lines.COMPACT_SUMMARY})
_TITLES = (("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary"))
_SHORT = 80  # characters of a first prompt that stand for a title


def prompts(data: bytes, *, every: bool = False) -> list[Prompt]:
    """What the person typed on the current branch, in conversation order; `every`: in all of the file, in its order.

    A prompt typed while a turn ran gets that turn's prompt_id, as the hook that told of it had it.
    """
    table = rows(data)
    found, turn = [], ""
    for at in range(len(table)) if every else branch(table, pinned=True):
        prompt = table[at].prompt
        turn = table[at].turn or turn
        if prompt is not None:
            found.append(prompt._replace(prompt_id=prompt.prompt_id or turn) if prompt.queued else prompt)
    return found


def cut(data: bytes, prompt: Prompt) -> bytes | None:
    """The transcript up to and including the parent of a prompt; None when nothing was said before it.

    Before a queued prompt that is the running turn up to the tool results behind which the client handed it to the model.
    """
    table = rows(data)
    index = places(table)
    target = index.get(prompt.uuid)
    if target is None:
        raise errors.AgentError("that prompt is not in this transcript (any more)")
    end = index.get(table[target].parent)
    if end is None and not table[target].parent:
        return None
    if end is None or end >= target:  # the parent was taken out of the file, or the lines were put in another order
        end = in_front(table, target)
    return _closed(data, table, end)


def cut_at(data: bytes, cursor: Cursor, trigger: str) -> bytes | None:
    """The transcript as it was at a checkpoint, by the ids of its cursor; None when nothing had been said.

    What a hook sees of the file is behind by some lines: the end of a turn is where the next one starts, the end of a
    batch where its last result is, a compaction where its boundary is. Raises AgentError when no id and no hash of the
    cursor is in this transcript.
    """
    table = rows(data)
    index = places(table)
    ends = [index[cursor.event_id]] if cursor.event_id in index else []
    if trigger in ("turn_end", "session_end"):
        ends += _turn_end(table, cursor.prompt_id or _turn_of(table, max(ends, default=-1)))
    if cursor.tool_use_id:
        ends += [at for at, row in enumerate(table) if cursor.tool_use_id in row.results][:1]
    if ends:
        end = max(ends)
        return _closed(data, table, _before_boundary(table, end) if trigger == "compact" else end)
    if not cursor.offset and not cursor.event_id:
        return None
    if cursors.holds(cursor, data):
        return _closed(data, table, sum(row.end <= cursor.offset for row in table) - 1)
    raise errors.AgentError("the place of that checkpoint is not in this transcript (any more)")


def title(data: bytes) -> str:
    """What the session is called, else the beginning of its first prompt, else ""."""
    for sort, field in _TITLES:
        for line in lines.containing(data, f'"{sort}"'.encode()):
            value = line.value or {}
            if value.get("type") == sort and lines.text(value.get(field)):
                return lines.text(value[field])
    first = next((prompt.text for prompt in prompts(data) if prompt.text.strip()), "")
    return first.strip().partition("\n")[0][:_SHORT]


def fork(data: bytes, cut: bytes, session: str, title: str = "") -> bytes:
    """`cut` as a session of its own. Its lines keep the old session's id: the client takes them as they are."""
    import json  # here: it costs a hook more than all that a hook asks of this module

    name = sessions.fork_title(PROFILE, title or _title_of(data))
    line = {"type": "custom-title", "customTitle": name, "sessionId": session}
    return cut + (b"" if cut.endswith(b"\n") else b"\n") + json.dumps(line, separators=(",", ":")).encode() + b"\n"


_title_of = title  # inside fork the name is its parameter's


def _closed(data: bytes, table: Sequence[Row], end: int | None) -> bytes | None:
    """The lines up to and including `end`, less a batch of calls at the end that is not answered; None when nothing was
    said in them.

    The client's explicit words on where the conversation goes on are left out: here that is the last line.
    """
    while end is not None and end >= 0:
        table = table[: end + 1]
        chain = branch(table, pinned=False)
        if not any(table[at].kind in _SAID for at in chain):
            return None
        start = _open_batch(table, chain)
        if start is None:
            return b"".join(data[row.start : row.end] for row in table if not row.pin)
        parent = places(table).get(table[start].parent)
        end = parent if parent is not None and parent < start else in_front(table, start)
    return None


def _open_batch(table: Sequence[Row], chain: Sequence[int]) -> int | None:
    """The index of the first call of the last message on the branch when one of its calls is not answered, else None.

    Calls of earlier messages that nobody answered are part of what the client sent on.
    """
    last = next((at for at in reversed(chain) if table[at].kind in _SAID), None)
    if last is None or table[last].kind != lines.ASSISTANT:
        return None
    message = table[last].message
    group = {at for at, row in enumerate(table) if row.message == message and row.calls} if message else {last}
    answered = {result for row in table for result in row.results}
    if all(answered.issuperset(table[at].calls) for at in group):
        return None
    return min(group.intersection(chain), default=last)


def _turn_end(table: Sequence[Row], turn: str) -> list[int]:
    """The index of the last line of a turn, in a list; an empty one when the turn is not there.

    A turn goes on until a line in the person's name has another id; turns are written one after the other. A compaction
    in the middle belongs to it when the turn goes on behind it.
    """
    start = next((at for at, row in enumerate(table) if turn and row.turn == turn), None)
    if start is None:
        return []
    end, behind = start, False
    for at in range(start, len(table)):
        row = table[at]
        if row.turn and row.turn != turn:
            break
        behind = row.boundary or (behind and not row.turn)
        if row.uuid and not behind:
            end = at
    return [end]


def _turn_of(table: Sequence[Row], at: int) -> str:
    """The id of the turn that a line belongs to: of the nearest line in front that says."""
    return next((table[i].turn for i in range(at, -1, -1) if table[i].turn), "")


def _before_boundary(table: Sequence[Row], end: int) -> int | None:
    """The index of the last line before the first compaction behind `end`, `end` when there is none."""
    boundary = next((at for at in range(end + 1, len(table)) if table[at].boundary), None)
    if boundary is None:
        return end
    parent = places(table).get(table[boundary].parent)
    return parent if parent is not None and end <= parent < boundary else in_front(table, boundary)
