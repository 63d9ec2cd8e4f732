"""The whole text of a prompt: a checkpoint holds the start of a long one, the transcript has all of it."""

from contextlib import suppress

from .. import errors
from ..agents import session_files
from ..agents.prompts import resolve
from ..model.checkpoint import Checkpoint
from . import conversation as conversations
from .context import Context


def of(context: Context, homes: session_files.Homes, point: Checkpoint) -> str:
    """The prompt that a checkpoint was made for, as the conversation has it now; "" if it is not found there."""
    with suppress(errors.CasrewindError, OSError):
        conversation = conversations.find_for_checkpoint(context, homes, point)
        prompts = conversation.agent.prompts(conversation.data, every=True)
        index = resolve(prompts, conversations.recorded_prompt(point))
        if index is not None:
            return prompts[index].text
    return ""
