"""Purge of a text: in every spelling, across every border; what holds it is dropped, and nothing beside it changes."""

import json
import os
import random

import pytest

from casrewind import errors
from casrewind.model import cursor as cursors
from casrewind.model.cursor import Cursor
from casrewind.upkeep.save import Moment, save
from casrewind.store import writer
from casrewind.store.failure_log import FailureLog
from support.secret_search import hits, secret
from support.trees import plant

WORD = secret("text")
PIECE = 64 << 10


def noise(seed, size):
    return random.Random(seed).randbytes(size // 2 + 1).hex()[:size].encode()


@pytest.fixture
def told(workspace, root, home):
    """told(bytes, **more): a checkpoint of an agent's event with these bytes as its transcript."""
    transcript = home / "session.jsonl"
    plant(root, {"f": b"1"})

    def work(data, **more):
        transcript.write_bytes(data)
        how = {"prompt": "p", "agent": "claude", "session": "s", "transcript": (str(transcript), len(data))}
        how["cursor"] = cursors.encode(Cursor("claude", "s", os.fsencode(transcript)))
        return save(workspace._context, Moment("prompt", **{**how, **more})).checkpoint

    return work


def stored(workspace, point):
    """The bytes of a checkpoint's transcript, None when it has none."""
    now = workspace.checkpoint(point.id)
    return None if now.transcript is None else b"".join(workspace._context.store.content(now.transcript))


def test_across_the_border_of_two_pieces_at_every_place(workspace, told):
    word = WORD.encode()
    whole = noise(1, 3 * PIECE)
    before, points = told(whole), []
    for cut in range(0, len(word) + 1, 3):
        at = PIECE - cut
        points.append(told(whole[:at] + word + whole[at + len(word) :]))
    assert hits(workspace.store_path, WORD)
    report = workspace.purge_text(word)
    assert report.places.transcripts == len(points)
    assert hits(workspace.store_path, WORD) == {}
    assert {stored(workspace, point) for point in points} == {None} and stored(workspace, before) == whole
    assert workspace.verify().problems == ()


def test_pieces_of_any_size_and_a_text_longer_than_several(workspace, told, monkeypatch):
    monkeypatch.setattr(writer, "_PIECE", 700)
    word = noise(2, 3_000)
    whole = noise(3, 9_000)
    point = told(whole[:4_100] + word + whole[4_100:])
    assert workspace.purge_text(word).places.transcripts == 1
    assert stored(workspace, point) is None
    assert hits(workspace.store_path, [word[at : at + 30] for at in range(0, 2_900, 100)]) == {}


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_in_json_and_in_json_inside_of_json(workspace, told, depth, ascii_only):
    value = WORD
    for _ in range(depth):
        value = json.dumps({"stdout": value}, ensure_ascii=ascii_only)
    lines = [json.dumps({"uuid": str(n), "content": value if n == 5 else "x" * n}, ensure_ascii=ascii_only) for n in range(10)]
    data = "".join(line + "\n" for line in lines).encode()
    if depth == 2:
        value = json.loads(json.loads(json.loads(lines[5])["content"])["stdout"])  # it really is three deep
        data = data.replace(lines[5].encode(), json.dumps({"uuid": "5", "content": json.dumps(WORD)}).encode())
    point = told(data)
    assert hits(workspace.store_path, WORD)
    workspace.purge_text(WORD.encode())
    assert hits(workspace.store_path, WORD) == {}
    assert stored(workspace, point) is None and workspace.verify().problems == ()


def test_in_prompts_and_where_a_prompt_was_cut_in_the_middle_of_it(workspace, told):
    whole, other = told(b"{}\n", prompt=f"say {WORD} now"), told(b"{}\n", prompt="y" * 300)
    cuts = [told(b"{}\n", prompt="y" * (200 - count) + WORD) for count in (4, 9, 30, 48)]
    assert {len(workspace.checkpoint(point.id).prompt) for point in cuts} == {200}
    report = workspace.purge_text(WORD.encode())
    assert report.places.prompts == 5
    assert workspace.checkpoint(other.id).prompt == "y" * 200
    assert {workspace.checkpoint(point.id).prompt for point in (whole, *cuts)} == {"***"}
    assert hits(workspace.store_path, WORD) == {}


def test_in_labels_of_every_origin(workspace, root):
    plant(root, {"f": b"1"})
    first = workspace.save(f"made with {WORD}").checkpoint
    second = workspace.save("two", pin=True).checkpoint
    workspace.pin(second, f"named {WORD}")
    workspace.pin(first, f"one {WORD}")
    workspace.pin(first, f"again {WORD}")
    workspace.unpin(first)
    described = workspace.save("before: " + "z" * 180 + WORD, described=True).checkpoint
    report = workspace.purge_text(WORD.encode())
    assert report.places.labels == 4
    marks = {point.id: (point.label, marked) for point, marked in workspace.checkpoints()}
    assert marks[first.id][0] == "***" and marks[first.id][1].label == "***"
    assert marks[first.id][1].released and marks[second.id][1].pinned
    assert marks[second.id][1].label == "***"
    assert marks[described.id][0] == "***"
    assert hits(workspace.store_path, WORD) == {}


def test_in_the_log_and_the_one_before_it_and_lines_stay_where_they_are(workspace, root):
    plant(root, {"f": b"1"})
    workspace.save()
    log = FailureLog(workspace.store_path)
    log.append_line(f"first {WORD} last")
    log.append_line("nothing of it")
    log.append_line("w" * 1_990 + WORD)
    assert len(log.take_unseen_lines()) == 3
    path = os.path.join(workspace.store_path, "log")
    with open(path, "rb") as file:
        before = file.read()
    with open(path + ".old", "wb") as file:
        file.write(before)
    log.append_line("what nobody has seen yet")
    log.append_line(f"nor this {WORD}")
    report = workspace.purge_text(WORD.encode())
    assert report.places.log == 5
    for name in (path, path + ".old"):
        with open(name, "rb") as file:
            after = file.read()[: len(before)]
        assert [len(line) for line in after.splitlines()] == [len(line) for line in before.splitlines()]
        assert WORD[:5].encode() not in after and after.count(b"nothing of it") == 1
    assert [line.partition(' ')[2] for line in log.take_unseen_lines()] == ["what nobody has seen yet"]
    assert hits(workspace.store_path, WORD) == {}


def test_files_that_hold_it_are_named_and_left_alone(workspace, root):
    big = noise(5, 2_000_000)
    plant(root, {"small": b"x" + WORD.encode(), "json": json.dumps([WORD]).encode(), "big": big[:1_000_000] + WORD.encode() + big[1_000_000:],
                 "without": b"nothing", "d/old": WORD.encode(), ".gitignore": WORD.encode() + b"\n"})  # fmt: skip
    one = workspace.save("one").checkpoint
    os.unlink(root / "d" / "old")
    two = workspace.save("two").checkpoint
    report = workspace.purge_text(WORD.encode())
    assert {item.path.decode(): item.checkpoint for item in report.files} == {
        "small": two.id, "json": two.id, "big": two.id, "d/old": one.id, ".gitignore": two.id,
    }  # fmt: skip
    assert tuple(report.places) == (0, 0, 0, 0, 0)
    assert b"".join(workspace.cat("two", b"small")) == b"x" + WORD.encode()
    for path in (b"small", b"json", b"big", b"d"):
        workspace.purge([path])
    assert [item.path for item in workspace.purge_text(WORD.encode()).files] == [b".gitignore"]


def test_what_lies_outside_of_the_store_and_holds_it_is_named(workspace, told, home):
    told(f'{{"t":"{WORD[:24]}"}}\n'.encode())
    word = WORD[:24].encode()
    assert workspace.purge_text(word).still_there == (os.fsencode(home / "session.jsonl"),)
    (home / "session.jsonl").write_bytes(b"{}\n")
    assert workspace.purge_text(word).still_there == ()
    os.unlink(home / "session.jsonl")
    os.mkfifo(home / "session.jsonl")
    assert workspace.purge_text(word).still_there == ()


def test_a_text_that_is_nowhere_changes_nothing_that_is_told(workspace, told):
    point = told(noise(6, 100_000))
    before = (workspace.checkpoints(), stored(workspace, point))
    report = workspace.purge_text(b"this text is nowhere")
    assert (report.files, tuple(report.places)) == ((), (0, 0, 0, 0, 0))
    assert (workspace.checkpoints(), stored(workspace, point)) == before
    assert workspace.verify().problems == ()


def test_what_only_a_forgotten_checkpoint_said_goes_too(workspace, root, told):
    told(WORD.encode() + b"\n", prompt=f"use {WORD}")
    workspace.save(f"label {WORD}")
    gone = [point.id for point, _ in workspace.checkpoints()]
    plant(root, {"f": b"2"})
    workspace.save()
    maintenance = workspace._context.store.maintenance()
    with maintenance.exclude_other_maintenance(), maintenance.hold_store_exclusively():
        assert maintenance.forget(gone, maintenance.newest_seq())
    assert hits(workspace.store_path, WORD)
    workspace.purge_text(WORD.encode())
    assert hits(workspace.store_path, WORD) == {}


def test_a_damaged_file_is_no_file_without_the_text(workspace, root):
    from support.packfile import digest, flip_blob

    plant(root, {"f": WORD.encode()})
    workspace.save()
    flip_blob(workspace.store_path, digest(WORD.encode()))
    with pytest.raises(errors.StoreDamaged):
        workspace.purge_text(WORD.encode())
