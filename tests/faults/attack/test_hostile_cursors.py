"""Checkpoints of a foreign store whose cursor names a file that is no transcript of theirs: no command for conversations
reads, writes or waits for it. Without the check of the place, the same cursor hits."""

import os
from pathlib import Path

import pytest

from casrewind.agents import session_files
from casrewind.model import cursor as cursors
from casrewind.upkeep.save import Moment, save
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.trees import plant

SESSION = "5e55104e-0000-4000-8000-000000000001"
NAME = f"{SESSION}.jsonl"
LINES = b"".join(
    b'{"type":"user","uuid":"u%d","parentUuid":%s,"sessionId":"%s","promptId":"p%d","promptSource":"typed","origin":{"kind":"human"},'
    b'"message":{"role":"user","content":"ask %d"}}\n'
    b'{"type":"assistant","uuid":"a%d","parentUuid":"u%d","sessionId":"%s","message":{"id":"m%d","role":"assistant","content":'
    b'[{"type":"text","text":"done"}]}}\n'
    % (n, b'"a%d"' % (n - 1) if n > 1 else b"null", SESSION.encode(), n, n, n, n, SESSION.encode(), n)
    for n in (1, 2)
)  # fmt: skip
COMMANDS = [
    ["back", "--yes"], ["back", "1", "--chat", "--yes"], ["back", "1", "--both", "--in-place", "--yes"], ["restore", "last", "--chat"],
    ["restore", "last", "--both", "--yes"], ["rewrite-chat", "last"], ["show", "last"],
]  # fmt: skip


def elsewhere(home, outside):
    return outside / NAME, SESSION


def through_a_directory(home, outside):
    (home / ".claude/projects/-linked").symlink_to(outside)
    return home / ".claude/projects/-linked" / NAME, SESSION


def through_a_link(home, outside):
    (home / ".claude/projects/-p" / NAME).symlink_to(outside / NAME)
    return home / ".claude/projects/-p" / NAME, SESSION


def with_dots(home, outside):
    return home / ".claude/projects/-p/../../../.." / outside.name / NAME, SESSION


def a_fifo(home, outside):
    os.mkfifo(home / ".claude/projects/-p" / NAME)
    return home / ".claude/projects/-p" / NAME, SESSION


def an_id_with_path_parts(home, outside):
    return home / ".claude/projects/-p" / NAME, f"../../../../{outside.name}/{SESSION}"


def relative(home, outside):
    return os.path.relpath(outside / NAME, "/"), SESSION


ATTACKS = [elsewhere, through_a_directory, through_a_link, with_dots, a_fifo, an_id_with_path_parts, relative]


@pytest.fixture
def attacked(workspace, root, home):
    """Makes a checkpoint with a cursor; returns the directory that is attacked."""
    outside = Path(home).parent / "outside"
    outside.mkdir()
    (outside / NAME).write_bytes(LINES)
    (Path(home) / ".claude/projects/-p").mkdir(parents=True)

    def make(attack, offset=1 << 62):
        path, session = attack(Path(home), outside)
        made = cursors.Cursor("claude", session, os.fsencode(path), prompt_id="p2", message_id="u2", event_id="a1", offset=offset)
        plant(root, {"f": b"1"})
        save(workspace._context, Moment("prompt", agent="claude", session=session, prompt="ask 2", cursor=cursors.encode(made)))
        return outside

    return make


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_command_reads_or_writes_there(attacked, root, home, attack):
    casrewind = InProcess(root, home)
    outside = attacked(attack)
    before = picture(outside), picture(Path(home) / ".claude"), picture(root)
    for command in COMMANDS:
        found = casrewind(*command)
        assert "Traceback" not in found.err and (found.code != 0 or command[0] == "show"), (command, found)
        assert differences(before[0], picture(outside)) == {}
    assert differences(before[1], picture(Path(home) / ".claude")) == {}
    assert differences(before[2], picture(root)) == {}


@pytest.mark.parametrize("attack", [elsewhere, through_a_directory, with_dots])
def test_without_the_check_the_same_cursor_hits(attacked, root, home, attack, monkeypatch):
    outside = attacked(attack)
    before = picture(outside)
    monkeypatch.setattr(session_files, "refuse_unsafe_transcript_path", lambda *_: None)
    InProcess(root, home)("back", "1", "--chat", "--yes", code=0)
    assert differences(before, picture(outside)) != {}
