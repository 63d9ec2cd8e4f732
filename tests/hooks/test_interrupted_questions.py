"""Commands that ask about a conversation, on a terminal: whoever says no, says nothing, or presses ctrl-C has changed nothing."""

import sys

import pytest

from support.terminal import answered
from support.unchanged import unchanged

pytestmark = pytest.mark.long

LINES = {
    "back --both": (["back", "2", "--both"], b"[y/N"), "back --in-place": (["back", "2", "--chat", "--in-place"], b"[y/N"),
    "jump": (["jump", "REF"], b"[y/N"), "rewrite-chat": (["rewrite-chat", "REF"], b"REWRITE"),
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("way", ["ctrl-c", "end", "no", "nothing"])
def test_at_every_question_about_a_conversation(ended, root, home, line, way):
    client, _, _ = ended
    (reference, *_) = (point["id"] for point in client.points() if point["trigger"] == "prompt")
    words, question = LINES[line]
    command = [sys.executable, "-m", "casrewind", "-C", str(root), *(reference if word == "REF" else word for word in words)]
    with unchanged(root, home / "data"), unchanged(client.transcript.parent):
        code, shown = answered(command, client.casrewind.environment, question, way)
    assert code == (130 if way == "ctrl-c" else 64 if line == "rewrite-chat" else 0), shown  # a word that is not typed is wrong usage
