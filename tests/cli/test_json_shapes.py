"""The shapes that --json prints are a contract: keys, types, order, and figures that agree with an independent look."""

import base64
import json
import os
import re
import unicodedata
from datetime import UTC, datetime

import blake3
import pytest

from casrewind.cli.terminal import lines
from support.command_in_process import InProcess
from support.picture import picture
from support.trees import Dir, Exec, Fifo, Link, Mode, plant

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ID = re.compile(r"[a-z][0-9a-z]+")
POINT = {
    "id": str, "seq": int, "created_at": str, "trigger": str, "label": (str, type(None)), "prompt": (str, type(None)),
    "agent": (str, type(None)), "session": (str, type(None)), "files": int, "bytes": int, "changes": dict, "pinned": bool,
    "current": bool, **dict.fromkeys(("turn", "prompt_id", "event_id", "branch", "commit", "parent", "machine"), (str, type(None))), "meta": dict,
}  # fmt: skip
ENTRY = {
    "path": str, "kind": str, "mode": str, "size": (int, type(None)), "mtime_ns": (int, type(None)),
    "digest": (str, type(None)), "target": (str, type(None)),
}  # fmt: skip
CHANGE = {
    "path": str, "status": str, "old_mode": (str, type(None)), "new_mode": (str, type(None)),
    "old_size": (int, type(None)), "new_size": (int, type(None)),
}  # fmt: skip
SAVE = {
    "checkpoint": str, "created": bool, "root": str, "files": int, "bytes": int, "changes": dict, "skipped": list,
    "elapsed_ms": int,
}  # fmt: skip
RESTORE = {
    "restored": int, "removed": int, "unchanged": int, "skipped": list, "foreign": list, "inner_projects": list, "edited_outside": list, "only_copies": list, "open_files": list, "safety": (str, type(None)),
    "target": (str, type(None)), "turn": (int, type(None)), "target_made_at": (str, type(None)), "dry_run": bool, "changes": list,
}  # fmt: skip
STATUS = {
    "root": str, "store": str, "checkpoints": int, "last": (dict, type(None)), "protected": bool, "reasons": list,
    "store_bytes": int, "budget_bytes": int, "agents": dict, "journal": (dict, type(None)), "skipped": list,
    "ignored": list, "ignored_complete": bool, "ignored_gone": list, "private_rules": dict, "connected": list, "keeps": dict, "remote": (dict, type(None)),
    "remote_not_joined": (str, type(None)),
    "worktrees": list, "unsaved": (dict, type(None)),
}  # fmt: skip


def shaped(found, shape, optional=()):
    """`found` has exactly the keys of `shape`, each of its type (bool is no int here)."""
    assert set(found) - set(optional) == set(shape)
    for key, kind in shape.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        assert type(found[key]) in kinds, (key, found[key])
    return found


def shaped_counts(found):
    return shaped(found, {"added": int, "modified": int, "removed": int})


def raw(item, key="path"):
    """The bytes of a path in a shape."""
    return base64.b64decode(item[key + "_b64"]) if key + "_b64" in item else item[key].encode()


def moment(text):
    assert TIME.fullmatch(text), text
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


TREE = {
    "a.txt": b"alpha\n", "b/c/deep.py": b"print()\n", "b.txt": b"", "b-c": b"between b and b/ in byte order", "run.sh": Exec(b"#!/bin/sh\n"),
    "secret": Mode(0o600, b"s"), "link": Link("a.txt"), b"\xfflink": Link(b"to \xfe"), "empty": Dir(0o750), "z\nline": b"n",
    b"caf\xe9": b"latin", "café": b"utf", "pipe": Fifo(), "big.bin": bytes(range(256)) * 6000,
}  # fmt: skip


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Two checkpoints, a restore and an undo of a project with everything odd in it; nothing more is changed here."""
    base = tmp_path_factory.mktemp("story")
    root, home = base / "project", base / "home"
    root.mkdir()
    home.mkdir()
    plant(root, TREE)
    command = InProcess(root, home)
    told = {"one": picture(root, mtimes=True), "save": command.json("save", "-m", "first")}
    plant(root, {"a.txt": b"alpha beta\n", "new/one": b"1", "link": b"no link any more"})
    os.unlink(root / "b.txt")
    os.chmod(root / "run.sh", 0o644)
    told["two"] = picture(root, mtimes=True)
    told["again"] = command.json("save", "--pin")
    told["same"] = command.json("save")
    return command, root, home, told


def test_save(story):
    command, root, _, told = story
    for found in (told["save"], told["again"], told["same"]):
        shaped(found, SAVE)
        shaped_counts(found["changes"])
        assert found["root"] == str(root)
        assert ID.fullmatch(found["checkpoint"])
        assert found["skipped"] == [{"path": "pipe", "reason": "special file"}]
        assert found["elapsed_ms"] >= 0
    files = [entry for entry in told["one"].values() if entry[0] == "file"]
    assert told["save"]["files"] == len(files)
    assert told["save"]["bytes"] == sum(len(data if isinstance(data, bytes) else data[-1]) for data in TREE.values() if not isinstance(data, (Link, Dir, Fifo)))
    assert told["save"]["created"] and told["again"]["created"]
    # everything but the fifo is new: files, links, and the empty directory
    assert told["save"]["changes"] == {"added": sum(not isinstance(item, Fifo) for item in TREE.values()), "modified": 0, "removed": 0}
    assert told["again"]["changes"] == {"added": 1, "modified": 3, "removed": 1}
    assert told["same"]["created"] is False
    assert told["same"]["checkpoint"] == told["again"]["checkpoint"]
    assert told["same"]["changes"] == {"added": 0, "modified": 0, "removed": 0}


def test_list_is_newest_first_and_agrees_with_save(story):
    command, _, _, told = story
    points = command.json("list")["checkpoints"]
    assert [point["id"] for point in points] == [told["again"]["checkpoint"], told["save"]["checkpoint"]]
    for point, saved in zip(points, (told["again"], told["save"]), strict=True):
        shaped(point, POINT)
        assert shaped_counts(point["changes"]) == saved["changes"]
        assert (point["files"], point["bytes"]) == (saved["files"], saved["bytes"])
        assert point["trigger"] == "manual"
        assert abs((datetime.now(UTC) - moment(point["created_at"])).total_seconds()) < 3600
    assert [point["seq"] for point in points] == sorted((point["seq"] for point in points), reverse=True)
    assert moment(points[0]["created_at"]) >= moment(points[1]["created_at"])
    assert [point["label"] for point in points] == [None, "first"]
    assert [point["pinned"] for point in points] == [True, False]
    assert [point["current"] for point in points] == [True, False]
    assert [point["prompt"] for point in points] == [None, None]


def test_list_is_cut_by_n_and_by_session(story):
    command, _, _, told = story
    assert [p["id"] for p in command.json("list", "-n", "1")["checkpoints"]] == [told["again"]["checkpoint"]]
    assert len(command.json("list", "-n", "99")["checkpoints"]) == 2
    assert command.json("list", "--session", "no-such-session") == {"checkpoints": [], "turns": [], "rows": []}


@pytest.mark.parametrize("which", ["one", "two"])
def test_show_is_what_an_independent_picture_says(story, which):
    command, root, _, told = story
    saved = told["save" if which == "one" else "again"]
    shown = command.json("show", saved["checkpoint"])
    assert set(shown) == {"checkpoint", "entries", "skipped", "turn", "changes"} and shown["turn"] is shown["changes"] is None
    assert shown["checkpoint"] == next(p for p in command.json("list")["checkpoints"] if p["id"] == saved["checkpoint"])
    assert shown["skipped"] == saved["skipped"]
    entries = {raw(entry): entry for entry in shown["entries"]}
    assert [raw(entry) for entry in shown["entries"]] == sorted(entries)
    expected = {path: entry for path, entry in told[which].items() if entry[0] != "other"}
    assert entries.keys() == expected.keys()
    for path, entry in entries.items():
        shaped(entry, ENTRY, optional=("path_b64", "target_b64"))
        kind, *rest = expected[path]
        assert entry["kind"] == kind
        if kind == "link":
            assert raw(entry, "target") == rest[0]
            assert entry["size"] == len(rest[0]) and entry["digest"] is None and entry["mtime_ns"] is None
            continue
        assert int(entry["mode"], 8) & 0o777 == rest[0] and re.fullmatch("0[0-7]{3}", entry["mode"])
        assert entry["target"] is None
        if kind == "dir":
            assert entry["size"] is None and entry["digest"] is None and entry["mtime_ns"] is None
        else:
            assert entry["mtime_ns"] == rest[2]
    counted = [entry for entry in entries.values() if entry["kind"] == "file"]
    assert shown["checkpoint"]["files"] == len(counted)
    assert shown["checkpoint"]["bytes"] == sum(entry["size"] for entry in counted)


def test_digests_and_sizes_are_those_of_the_bytes(story):
    command, root, _, told = story
    for entry in command.json("show", told["again"]["checkpoint"])["entries"]:
        if entry["kind"] == "file":
            with open(os.path.join(os.fsencode(root), raw(entry)), "rb") as file:
                data = file.read()
            assert entry["digest"] == blake3.blake3(data).hexdigest()
            assert entry["size"] == len(data)


def test_a_name_that_is_not_utf8_has_its_bytes_beside_it_and_others_have_none(story):
    command, _, _, told = story
    entries = command.json("show", told["save"]["checkpoint"])["entries"]
    odd = [entry for entry in entries if "path_b64" in entry]
    assert {raw(entry) for entry in odd} == {b"\xfflink", b"caf\xe9"}
    for entry in odd:
        assert entry["path"] == raw(entry).decode("utf-8", "replace")
    assert [raw(entry, "target") for entry in entries if "target_b64" in entry] == [b"to \xfe"]


def test_diff(story):
    command, _, _, told = story
    found = command.json("diff", "prev", "last")
    assert set(found) == {"changes", "captured_since", "no_longer_captured", "missing", "renames", "from", "to", "turn"} and found["missing"] == []
    changes = [shaped(change, CHANGE, optional=("path_b64",)) for change in found["changes"]]
    assert [raw(change) for change in changes] == sorted(raw(change) for change in changes)
    by_path = {change.pop("path"): change for change in changes}
    assert by_path == {
        "a.txt": {"status": "modified", "old_mode": "0644", "new_mode": "0644", "old_size": 6, "new_size": 11},
        "b.txt": {"status": "removed", "old_mode": "0644", "new_mode": None, "old_size": 0, "new_size": None},
        "link": {"status": "type", "old_mode": "0777", "new_mode": "0644", "old_size": 5, "new_size": 16},
        "new/one": {"status": "added", "old_mode": None, "new_mode": "0644", "old_size": None, "new_size": 1},
        "run.sh": {"status": "modified", "old_mode": "0755", "new_mode": "0644", "old_size": 10, "new_size": 10},
    }
    backwards = command.json("diff", "last", "prev")["changes"]
    turned = {"added": "removed", "removed": "added"}
    assert [(c["path"], turned.get(c["status"], c["status"])) for c in backwards] == [
        (path, change["status"]) for path, change in by_path.items()
    ]
    assert (found["from"]["checkpoint"], found["to"]["side"]) == (told["save"]["checkpoint"], "checkpoint") and found["turn"] is None
    for same in (command.json("diff", "last"), command.json("diff")):
        assert {key: same[key] for key in ("changes", "missing", "renames")} == {"changes": [], "missing": [], "renames": []}
        assert same["from"] == found["to"] and same["to"] == {"checkpoint": None, "turn": None, "n": None, "side": "now", "at": None}


def test_a_diff_is_sorted_by_the_bytes_of_its_paths(casrewind, root):
    casrewind.json("save")
    plant(root, {"b/x": b"", "b-c": b"", "b.": b"", "B": b"", b"\xff": b"", "é": b"", b"\x01": b""})
    found = [raw(change) for change in casrewind.json("diff")["changes"]]
    assert found == sorted([b"b/x", b"b-c", b"b.", b"B", b"\xff", "é".encode(), b"\x01"])


def test_restore_undo_redo(casrewind, root):
    plant(root, {"same": b"s", "edit": b"old", "gone": b"g", "d/x": b"x"})
    point = casrewind.json("save")["checkpoint"]
    plant(root, {"edit": b"newer", "added": b"a"})
    os.unlink(root / "gone")
    plan = casrewind.json("restore", "last", "--dry-run")
    done = casrewind.json("restore", "last", "--yes")
    undone = casrewind.json("undo", "--yes")
    redone = casrewind.json("redo", "--yes")
    nothing = casrewind.json("restore", "last", "--yes")
    for report in (plan, done, undone, redone, nothing):
        shaped(report, RESTORE, optional=("exact",))
        for change in report["changes"]:
            shaped(change, {**CHANGE, "how": str, "merged": (dict, type(None))})
        assert [change["path"] for change in report["changes"]] == sorted(change["path"] for change in report["changes"])
        assert report["restored"] + report["removed"] == len(report["changes"])
        assert report["removed"] == sum(1 for change in report["changes"] if change["status"] == "removed")
        assert report["skipped"] == [] and report["foreign"] == []
    assert plan["dry_run"] and not any(report["dry_run"] for report in (done, undone, redone, nothing))
    assert plan["safety"] is None and nothing["safety"] is None
    assert {**plan, "dry_run": False, "safety": done["safety"]} == done
    assert (done["target"], done["restored"], done["removed"], done["unchanged"]) == (point, 2, 1, 2)
    assert [(c["path"], c["status"]) for c in done["changes"]] == [("added", "removed"), ("edit", "modified"), ("gone", "added")]
    assert [(c["path"], c["status"]) for c in undone["changes"]] == [("added", "added"), ("edit", "modified"), ("gone", "removed")]
    assert undone["target"] == done["safety"]
    assert redone["changes"] == done["changes"] and redone["target"] == point
    assert (nothing["restored"], nothing["removed"], nothing["unchanged"]) == (0, 0, 4)
    assert len({done["safety"], undone["safety"], redone["safety"]}) == 3
    safety = [p for p in casrewind.json("list", "--all")["checkpoints"] if p["trigger"] == "safety"]
    assert [p["id"] for p in safety] == [redone["safety"], undone["safety"], done["safety"]]
    assert [p["id"] for p in casrewind.json("list")["checkpoints"]] == [point]


def test_a_path_that_a_restore_leaves_alone_is_reported_and_makes_3(casrewind, root):
    plant(root, {"f": b"one"})
    casrewind.json("save")
    plant(root, {"f": b"two"})
    casrewind.json("restore", "last", "--yes")
    plant(root, {"f": b"edited since"})
    report = shaped(casrewind.json("undo", "--yes", code=3), RESTORE)
    assert report["skipped"] == [{"path": "f", "reason": "edited since", "why": None, "lines": [], "by": []}]
    assert report["changes"] == [] and report["restored"] == 0
    assert (root / "f").read_bytes() == b"edited since"


def test_status(story):
    command, root, home, told = story
    found = shaped(command.json("status"), STATUS)
    assert found["root"] == str(root)
    assert os.path.isfile(os.path.join(found["store"], "FORMAT")) and found["store"].startswith(str(home))
    assert found["checkpoints"] == 2
    assert shaped(found["last"], POINT)["id"] == told["again"]["checkpoint"]
    assert found["protected"] is True and found["journal"] is None and found["agents"] == {}
    assert found["budget_bytes"] == 5 << 30
    on_disk = sum(os.lstat(os.path.join(place, name)).st_blocks * 512 for place, _, names in os.walk(found["store"]) for name in names)
    assert found["store_bytes"] == on_disk > 0
    assert found["skipped"] == [{"path": "pipe", "reason": "special file"}]


def test_json_prints_one_object_and_nothing_else(story):
    command, _, _, told = story
    for arguments in (["list"], ["show", "last"], ["diff"], ["diff", "prev"], ["status"], ["restore", "last", "--dry-run"]):
        found = command(arguments[0], "--json", *arguments[1:], code=0)
        assert found.err == ""
        assert found.out.endswith("}\n") and found.out.count("\n") == 1
        assert isinstance(json.loads(found.out), dict)


def test_json_on_standard_output_when_the_command_fails_is_the_error(story):
    command, *_ = story
    found = command("show", "--json", "no-such-thing", code=15)
    assert list(json.loads(found.out)) == ["format", "error"] and found.err


def test_json_is_utf8_whatever_the_locale_and_leaves_no_control_character(process, root):
    plant(root, {"é\x9b31m\x1b[0m\u202e": b"x"})
    found = process("save", "--json", code=0, LANG="C", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert found.json["created"]
    shown = process("show", "--json", "last", code=0, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert shown.json["entries"][0]["path"] == "é\x9b31m\x1b[0m\u202e"
    assert not set(shown.out) & set("\x9b\x1b\u202e")


def test_no_output_has_a_character_that_is_obeyed_or_not_seen(process, root):
    """Directions, marks, joiners, separators, tags: JSON escapes them and means the same, text shows them as escapes."""
    wanted = {"Cc", "Cf", "Zl", "Zp"}
    odd = [chr(code) for code in range(0x80, 0x110000) if unicodedata.category(chr(code)) in wanted]
    assert {"\u200e", "\u200f", "\u061c", "\ufeff", "\u200d", "\U000e0001", "\u2028", "\x85"} <= set(odd)
    names = ["".join(odd[at : at + 40]) for at in range(0, len(odd), 40)]
    plant(root, {name: b"x" for name in [*names, "\U0001f468\u200d\U0001f469\u200d\U0001f467"]})
    process("save", "-m", "label \U000e0041\ufeff", code=0)
    told = process("show", "--json", "last", code=0, PYTHONIOENCODING="utf-8")
    assert not set(told.out) & set(odd)
    assert {entry["path"] for entry in told.json["entries"]} >= set(names)
    assert "\U0001f468" in told.out, "what is seen stays readable"
    for command in (["show", "last"], ["list"], ["log", names[0]], ["status"], ["du"]):
        assert not set(process(*command, code=0, PYTHONIOENCODING="utf-8").out) & set(odd), command


@pytest.mark.parametrize("at_once", [1, 2, 500])
def test_an_object_that_is_printed_in_parts_is_as_one_printed_at_once(capsysbinary, monkeypatch, at_once):
    rows = [{"path": "é\x7f\u202e", "n": [1, {"x": []}]}, {}, [], None, "a"]
    shape = {"rows": rows, "none": [], "text": "é\n", "lists": {"a": [1, 2, 3]}, "number": 1.5}
    monkeypatch.setattr(lines, "_ITEMS", at_once)
    lines.print_json({**shape, "rows": iter(rows), "none": iter(())})
    whole = json.dumps({"format": 1, **shape}, ensure_ascii=False).replace("\x7f", "\\u007f").replace("\u202e", "\\u202e")
    assert capsysbinary.readouterr().out == whole.encode() + b"\n"
