"""casrewind du as it is typed: what it prints, its JSON, and what it says when something is wrong."""

import base64
import json
import os
import random
import re
import shutil
import subprocess
import sys

import pytest

from casrewind.upkeep.save import Moment
from casrewind.upkeep.save import save as save_moment
from casrewind.workspace import open as opened
from support import packfile
from support.blob_owners import checked_usage, pack_sizes
from support.terminal import Session, with_patience
from support.trees import plant
from support.unchanged import unchanged

NUMBER = r"\d+(\.\d)? (B|KiB|MiB)"


def noise(seed, size):
    return random.Random(seed).randbytes(size)


@pytest.fixture
def told(root, home, settings, casrewind):
    """The command beside a project of two sessions, a labelled checkpoint and a pinned one; 12 checkpoints."""
    plant(root, {"src/deep/a.py": b"a", "notes": b"n", ".gitignore": b"*.o\n"})
    casrewind("save", "-m", "by hand", code=0)
    with opened(root, settings) as workspace:
        for n in range(10):
            with open(home / "talk.jsonl", "ab") as file:
                file.write(noise(n, 2000))
            plant(root, {"build/out.bin": noise(20 + n, 20_000), "src/deep/a.py": noise(40 + n, 300), "src/b.py": noise(n // 4, 300)})
            moment = Moment(
                trigger="prompt" if n % 2 == 0 else "turn_end", prompt=f"do thing {n}" if n % 2 == 0 else "", agent="claude",
                session=f"session-{n // 5}", transcript=(str(home / "talk.jsonl"), (n + 1) * 2000),
            )  # fmt: skip
            save_moment(workspace._context, moment)
    plant(root, {"huge": noise(99, 500_000)})
    casrewind("save", "--pin", code=0)
    return casrewind


def sections(out):
    """The output in its parts: an empty line stands before each but the first."""
    return [part.splitlines() for part in out.rstrip("\n").split("\n\n")]


def cells(line):
    return re.split(r"\s{3,}", line.strip())


def test_what_a_person_reads(told):
    found = told("du", code=0)
    assert found.err == ""
    result, points, paths, sessions, hint = sections(found.out)
    assert re.fullmatch(rf"{NUMBER} on disk of a budget of 5\.0 GiB: {NUMBER} reachable; gc would free nothing", result[0])
    parts = ["needed by one checkpoint alone", "shared by several checkpoints"]
    parts += ["kept free for gc, which uses it when the disk is full", "index, ledger and the rest"]
    assert [cells(line.replace("  ", "   "))[1:] for line in result[1:]] == [[part] for part in parts]
    assert all(re.match(rf" +{NUMBER}  \w", line) for line in result[1:])

    assert points[0] == "the largest 10 of 12 checkpoints, -n N for more; unique = freed if only it is deleted, * = pinned"
    assert cells(points[1]) == ["unique", "shared", "id", "when", "trigger", "what"]
    assert len(points) == 3 + 10
    first = cells(points[3])
    assert first[0].startswith("488.") and first[4:] == ["manual", "*"]
    what = {tuple(cells(line)[4:]) for line in points[4:]}
    assert ("prompt", "do thing 4") in what and ("turn end",) in what

    assert re.fullmatch(rf"6 paths; stored = all versions together; lists of directories: {NUMBER}", paths[0])
    assert cells(paths[1]) == ["stored", "versions", "path"]
    rows = [cells(line) for line in paths[3:]]
    assert [row[1:] for row in rows] == [
        ["1", "huge"], ["10", "build/out.bin"], ["11", "src/deep/a.py"], ["3", "src/b.py"], ["1", ".gitignore"], ["1", "notes"],
    ]  # fmt: skip
    assert rows[0][0].startswith("488.") and rows[1][0].startswith("195.")

    assert sessions[0] == "3 sessions; unique = what no other session needs"
    assert cells(sessions[1]) == ["unique", "shared", "transcript", "checkpoints", "newest", "session"]
    assert [(row[3], row[5]) for row in map(cells, sessions[3:])] == [
        ("2", "(no agent)"), ("5", "claude session-1"), ("5", "claude session-0"),
    ]  # fmt: skip
    assert hint == ["casrewind gc deletes old checkpoints; casrewind purge PATH removes a path from all"]


def test_on_a_terminal_a_path_can_be_copied_whole_and_a_prompt_is_cut(process, root):
    long = "a/" * 60 + "file"
    plant(root, {long: noise(1, 400)})
    process("save", "-m", "words " * 30, code=0)
    session = Session(with_patience(process, 3600, "du"), {**process.environment, "NO_COLOR": "1"}, size=(24, 80))
    code, shown = session.end()
    lines = shown.decode().replace("\x1b[0m", "").splitlines()
    assert code == 0 and max(map(len, lines[1:-1])) <= 80
    (row,) = [line for line in lines if "words" in line]
    assert row.rstrip().endswith("…")
    at = next(number for number, line in enumerate(lines) if "a/a/a/a" in line)
    whole = "".join(line[lines[at].index("a/a/") :].strip() for line in lines[at : at + 4])
    assert whole.startswith(long)
    piped = process("du", code=0).out
    assert f"1   {long}\n" in piped and ("words " * 30).strip() + "\n" in piped


def test_more_rows_one_table_and_directories_as_sums(told):
    result, points, hint = sections(told("du", "-n", "50", "--by", "checkpoint", code=0).out)
    assert points[0].startswith("12 checkpoints; unique = ") and len(points) == 3 + 12
    assert points[-1].endswith("by hand")
    result, paths, hint = sections(told("du", "--by", "path", "--depth", "1", "-n", "3", code=0).out)
    assert paths[0] == "the largest 3 of 5 paths, -n N for more; stored = all versions together"
    assert [cells(line)[1:] for line in paths[3:]] == [["1", "huge"], ["10", "build/"], ["11", "src/"]]
    result, sessions, hint = sections(told("du", "--by", "session", "-n", "1", code=0).out)
    assert sessions[0].startswith("the largest 1 of 3 sessions, -n N for more; ") and len(sessions) == 4


TOP = {
    "store_bytes": int, "ballast_bytes": int, "budget_bytes": int, "gc_bytes": int, "packs": int, "packs_bytes": int, "reachable_bytes": int,
    "unique_bytes": int, "shared_bytes": int, "other_bytes": int, "garbage_bytes": int, "tree_bytes": int,
    "checkpoints": list, "paths": list, "sessions": list, "problems": list,
}  # fmt: skip


def test_json(told, root, settings):
    found = told.json("du")
    assert {key: type(value) for key, value in found.items()} == TOP
    assert found["packs_bytes"] == sum(pack_sizes(told.json("status")["store"]).values())
    assert found["reachable_bytes"] == found["unique_bytes"] + found["shared_bytes"] + found["other_bytes"]
    assert found["packs_bytes"] == found["reachable_bytes"] + found["garbage_bytes"] + 8 * found["packs"]
    assert found["budget_bytes"] == 5 << 30 and found["store_bytes"] > found["packs_bytes"]
    with opened(root, settings) as workspace:
        report = checked_usage(workspace)
    listed = {point["id"]: point for point in told.json("list", "--all")["checkpoints"]}
    assert len(found["checkpoints"]) == 12
    for shown, row in zip(found["checkpoints"], report.checkpoints, strict=True):
        own = {**listed[row.checkpoint.id], "turn": shown["turn"], "prompt": shown["prompt"]}  # only list reads the other checkpoints of a turn
        assert shown == {**own, "unique_bytes": row.unique, "shared_bytes": row.shared}
    assert found["paths"] == [
        {"path": row.path.decode(), "kind": "file", "stored_bytes": row.size, "versions": row.versions} for row in report.paths
    ]
    for shown, row in zip(found["sessions"], report.sessions, strict=True):
        newest = max(point["created_at"] for point in listed.values() if point["session"] == (row.session or None))
        assert shown == {
            "agent": row.agent or None, "session": row.session or None, "checkpoints": row.checkpoints, "newest_at": newest,
            "unique_bytes": row.unique, "shared_bytes": row.shared, "transcript_bytes": row.transcripts,
        }  # fmt: skip
    assert found["problems"] == []


def test_json_of_one_table_has_null_for_the_others_and_n_cuts(told):
    found = told.json("du", "--by", "path", "-n", "2", "--depth", "1")
    assert set(found) == set(TOP) and found["checkpoints"] is None and found["sessions"] is None
    assert [(row["path"], row["kind"]) for row in found["paths"]] == [("huge", "file"), ("build", "dir")]
    assert len(told.json("du", "-n", "4")["checkpoints"]) == 4


def test_du_changes_nothing(told, root, home):
    with unchanged(root, home / "data"):
        told("du", code=0)
        told("du", "--json", "--depth", "2", code=0)


def test_a_name_that_is_not_utf8_has_its_bytes_and_nothing_printed_commands_a_terminal(casrewind, root):
    plant(root, {b"\xff/\x1b[31m": noise(1, 500), "b\n": b"1"})
    casrewind("save", "-m", "\x1b]0;title\x07", code=0)
    odd, plain = casrewind.json("du")["paths"]
    assert base64.b64decode(odd["path_b64"]) == b"\xff/\x1b[31m" and "path_b64" not in plain and plain["path"] == "b\n"
    out = casrewind("du", code=0).out
    assert "\x1b" not in out and "\x07" not in out
    assert r"\xff/\x1b[31m" in out and r"b\n" in out


@pytest.mark.parametrize(
    "arguments", [["-n", "0"], ["-n", "x"], ["--depth", "0"], ["--depth", "-1"], ["--by", "day"], ["--by", "session", "--depth", "1"], ["REF"], ["--", "src"]]
)
def test_usage_errors(casrewind, arguments):
    casrewind("save", code=0)
    found = casrewind("du", *arguments, code=64)
    assert found.out == "" and "casrewind" in found.err


def test_without_a_store_it_says_how_to_make_one(casrewind, home):
    assert "casrewind save" in casrewind("du", code=10).err
    assert not (home / "data").exists()


def test_a_store_without_checkpoints(casrewind, root, settings):
    with opened(root, settings):
        pass
    lines = casrewind("du", code=0).out.splitlines()
    assert re.fullmatch(rf"{NUMBER} on disk of a budget of 5\.0 GiB: 0 B reachable; gc would free nothing", lines[0])
    assert lines[1].endswith("  index, ledger and the rest") and lines[2:] == ["  no checkpoints; casrewind save makes one"]
    assert casrewind.json("du")["checkpoints"] == []


def test_what_only_undo_needs_and_garbage_have_lines_of_their_own(casrewind, root, settings):
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    plant(root, {"f": noise(1, 30_000)})
    casrewind("restore", "last", "-y", code=0)
    plant(root, {"g": noise(2, 40_000)})
    casrewind("save", code=0)
    os.unlink(root / "g")
    casrewind("save", code=0)
    with opened(root, settings) as workspace:
        maintenance = workspace._context.store.maintenance()
        gone = [point.id for point, _ in workspace.checkpoints() if point.trigger == "safety" or point.changes.added]
        assert len(gone) >= 2 and maintenance.forget(gone[:2], maintenance.newest_seq())
        checked_usage(workspace)
    lines = casrewind("du", code=0).out.splitlines()
    assert sum(re.fullmatch(r" +(29|30)\.\d KiB  needed only by undo or an open restore", line) is not None for line in lines) == 1
    assert sum(re.fullmatch(r" +(39|40)\.\d KiB  garbage", line) is not None for line in lines) == 1
    assert re.search(r"gc would free about (39|40)\.\d KiB$", lines[0])


def test_what_gc_would_give_back_is_said(casrewind, root):
    for n in range(3):
        plant(root, {"f": noise(n, 300_000)})
        casrewind("save", code=0)
    casrewind("save", "-m", "same", code=0)
    first = casrewind("du", code=0, CASREWIND_MAX_COUNT="1").out.splitlines()[0]
    would = casrewind.json("du", CASREWIND_MAX_COUNT="1")["gc_bytes"]
    assert would > 500_000
    assert re.search(r"; gc would free about 5\d\d\.\d KiB$", first)


def test_damage_is_named_on_standard_error_and_ends_with_20(told, root):
    store = told.json("status")["store"]
    places = packfile.records(store)
    one_of_each_pack = {places[digest][0][0]: digest for digest in packfile.kinds(store)[3]}  # so that none hides another below it
    for digest in list(one_of_each_pack.values())[:3]:
        packfile.flip_blob(store, digest)
    found = told("du", code=20)
    assert len(sections(found.out)) == 5
    *named, last = found.err.splitlines()
    assert last == "casrewind: what is damaged is not counted: casrewind verify shows what is affected"
    problems = json.loads(told("du", "--json", code=20).out)["problems"]
    assert len(problems) == 3 and all(set(problem) == {"kind", "id", "detail"} for problem in problems)
    assert {problem["kind"] for problem in problems} == {"blob"}
    assert named == [f"casrewind: damaged: {problem['detail']}" for problem in problems]
    assert all(re.fullmatch("blob [0-9a-f]{16} in pack [0-9a-f]{20} is not what was written", p["detail"]) for p in problems)


def test_of_much_damage_ten_are_named_and_the_others_counted(told):
    place = os.path.join(told.json("status")["store"], "packs")
    for name in sorted(os.listdir(place))[2:]:
        os.unlink(os.path.join(place, name))
    lines = told("du", code=20).err.splitlines()
    assert len(lines) == 11
    assert re.fullmatch(
        r"casrewind: \d+ in all; what is damaged is not counted: casrewind verify shows what is affected", lines[-1]
    )


READ_ONLY = ("unshare", "-m", "sh", "-c", 'mount --bind "$STORE" "$STORE" && mount -o remount,ro,bind "$STORE" && exec "$@"', "sh")


def test_a_store_that_cannot_be_written_is_measured_all_the_same(told, process):
    if os.geteuid() != 0 or shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs root and mount namespaces")
    store = told.json("status")["store"]
    plainly = told.json("du")
    found = process("du", "--json", code=0, prefix=READ_ONLY, STORE=store).json
    for key in ("checkpoints", "paths", "sessions", "unique_bytes", "shared_bytes", "garbage_bytes", "gc_bytes"):
        assert found[key] == plainly[key], key


def test_an_output_that_is_closed_early_is_no_error(told, process):
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m casrewind -C '{process.root}' du | head -1"],
        env=process.environment, capture_output=True, timeout=60,
    )
    assert done.returncode == 0 and done.stderr == b"" and done.stdout.count(b"\n") == 1
