"""Which of a client's ids names a whole turn, from its prompt to its end.

The danger prevented here: an id that names a message is taken for that of a turn. Then every end belongs to no prompt.
"""

_FIELDS = {"claude": "prompt_id", "codex": "turn_id", "pi": "prompt_id"}


def field_of(agent: str) -> str:
    """The name of the id, as events and cursors call it; "" for clients that give no id which prompt and end share."""
    return _FIELDS.get(agent, "")
