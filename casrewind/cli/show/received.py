"""A receipt as lines and as JSON: what came from another machine, and what is lacking here."""

import os
from collections.abc import Iterator, Sequence

from ..._typing import TYPE_CHECKING
from ...messages import plural, printable
from . import shapes
from .text import Line

if TYPE_CHECKING:
    from ...change.receipt import CameConversation, Receipt

_TITLE = "receipt: "
_NAMES_SHOWN = 8
"""Names of a line, before it only counts them."""


def receipt_lines(receipt: "Receipt") -> Iterator[Line]:
    """What came, and what is lacking; a line without a lack is left out."""
    chat = receipt.conversation
    less = "" if receipt.is_whole or receipt.exact == receipt.files else "; not all were asked for, or edits were kept"
    found = [f"files {receipt.exact:,} of {receipt.files:,} exact{less}", _conversation_in_words(chat)]
    if receipt.ignored:
        found.append(f"not here: {_listed([printable(name) for name in receipt.ignored])} (ignored there, not sent)")
    if chat.programs:
        found.append(f"programs used there and not found here: {_listed(chat.programs)}")
    if chat.paths:
        more = " ..." if len(chat.paths) > 1 else ""
        found.append(f"the conversation names {plural(len(chat.paths), 'path')} of the other machine: {printable(chat.paths[0])}{more}")
    for number, words in enumerate(found):
        yield Line((" " * len(_TITLE) if number else _TITLE) + words)


def _conversation_in_words(chat: "CameConversation") -> str:
    if not chat.agent:
        return "no conversation belongs to the checkpoint"
    if chat.why_not:
        return f"conversation not here: {printable(chat.why_not)}"
    exact = "exact" if chat.here == chat.messages else f"not exact: {chat.here:,} of {plural(chat.messages, 'message')}"
    there, here = printable(chat.version_there), chat.version_here
    versions = f" {there} there and here" if there == here else ",".join([f" {there} there"] * bool(there) + [f" {here} here"] * bool(here))
    return f"conversation {exact}, {plural(chat.prompts, 'prompt')} ({printable(chat.agent)}{versions if there or here else ''})"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def receipt_shape(receipt: "Receipt | None") -> "shapes.Shape":
    """The members `receipt` and `complete`; both are null without a receipt."""
    if receipt is None:
        return {"receipt": None, "complete": None}
    chat = receipt.conversation
    talk: shapes.Shape = {
        "agent": chat.agent, "exact": not chat.why_not and chat.here == chat.messages, "why_not": chat.why_not or None,
        "prompts": chat.prompts, "messages": chat.messages, "messages_here": chat.here,
        "version_there": chat.version_there or None, "version_here": chat.version_here or None,
    }  # fmt: skip
    return {
        "receipt": {
            "machine": receipt.machine, "checkpoint": receipt.checkpoint,
            "files": receipt.files, "exact": receipt.exact, "whole": receipt.is_whole,
            "conversation": talk if chat.agent else None,
            "not_here": [shapes.path(name) for name in receipt.ignored],
            "programs": list(chat.programs), "paths": [shapes.path(os.fsencode(path)) for path in chat.paths],
        },
        "complete": receipt.is_complete,
    }  # fmt: skip
