"""`restore -p`: one question for each hunk, with the letters of `git add -p`, from a terminal or from a pipe."""

import io
import os
import random
import signal
import subprocess
import sys

import pytest

import casrewind as api
from casrewind.cli.plan import hunk_questions, hunks
from casrewind.model import digest
from casrewind.model.diff import Change
from casrewind.model.manifest import FILE, Entry
from casrewind.history.compare import Comparison
from casrewind.history.turn_view import TurnView
from support import changes
from support.agent_turns import AgentTurns
from support.picture import picture
from support.trees import Dir, Link, Mode, plant
from support.unchanged import unchanged

OLD = [b"line %d\n" % number for number in range(80)]
PLACES = (5, 8, 30, 50, 53, 56)
"""The changed lines: three hunks, of which the first and the last can be split."""
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "PATH": os.environ["PATH"], "LC_ALL": "C"}


def with_changes(places):
    return b"".join(b"changed %d\n" % number if number in places else line for number, line in enumerate(OLD))


@pytest.fixture
def answered(casrewind, tmp_path):
    """Call the command with answers from a file."""

    def call(letters, *arguments, code=0, **more):
        given = tmp_path / "answers"
        given.write_bytes(letters.encode() if isinstance(letters, str) else letters)
        with open(given, "rb") as stdin:
            return casrewind(*arguments, stdin=stdin, code=code, **more)

    return call


@pytest.fixture
def changed(casrewind, root):
    """A checkpoint with lines that were changed since in six places of three hunks; a file that went, one that came."""
    plant(root, {"a.py": b"".join(OLD), "gone": b"g\n", "same": b"s\n"})
    casrewind.json("save", "-m", "start")
    plant(root, {"a.py": with_changes(PLACES), "new": b"n\n"})
    (root / "gone").unlink()


def test_only_chosen_hunks_are_restored_and_the_plan_is_not_asked(changed, casrewind, answered, root):
    before = picture(root)
    done = answered("n\ny\nn\ny\nn\n", "restore", "-p", "last")
    assert (root / "a.py").read_bytes() == with_changes({5, 8, 50, 53, 56})
    assert (root / "gone").exists() and (root / "new").exists()
    assert "(1/3) Apply this hunk [y,n,q,a,d,j,g,s,?]? n\n" in done.out and "(1/1) Apply this addition [y,n,q,a,d,?]? y\n" in done.out
    assert "-changed 30\n+line 30\n" in done.out and "(1/1) Apply this removal [y,n,q,a,d,?]? n\n" in done.out
    plan = done.out[done.out.index("restore to 'start'") :]
    assert "chosen hunks only: 2 written\n  ~ a.py" in plan and "  + gone\n" in plan and "Go on?" not in plan
    assert "  2 paths written, 0 removed" in plan and "casrewind undo" in plan
    casrewind("undo", "--yes", code=0)
    assert picture(root) == before
    casrewind("verify", code=0)


def test_the_end_of_the_answers_is_q_and_what_has_y_is_restored(changed, answered, root):
    done = answered("y\n", "restore", "-p", "last")
    assert (root / "a.py").read_bytes() == with_changes({30, 50, 53, 56}) and not (root / "gone").exists()
    assert done.out.count("Apply this") == 2 and "1 path written" in done.out


@pytest.mark.parametrize("letters", ["", "q\n", "n\nn\nn\nn\nn\n", "d\nd\nd\n", "no\n?\n\n"])
def test_nothing_chosen_changes_nothing(changed, answered, root, home, letters):
    with unchanged(root, home / "data"):
        done = answered(letters, "restore", "-p", "last")
    assert done.out.endswith("nothing was changed\n")


def test_a_hunk_is_split_at_lines_that_did_not_change(changed, answered, root):
    done = answered("s\nn\ny\nd\nd\nd\n", "restore", "-p", "last", "a.py")
    assert (root / "a.py").read_bytes() == with_changes({5, 30, 50, 53, 56})
    assert "split into 2 hunks" in done.out and "(2/4) Apply this hunk" in done.out and "addition" not in done.out


def test_a_list_of_hunks_is_shown_to_go_to_one(changed, answered, root):
    done = answered("y\ng\n3\ny\ng 1\nn\ng\n9\nd\nq\n", "restore", "-p", "last")
    assert "+  1: -3,10 +3,10" in done.out and "   2: -28,7 +28,7" in done.out and "-changed 30\n" in done.out
    assert "there is no hunk '9': they are 1 to 3" in done.out
    assert (root / "a.py").read_bytes() == with_changes({5, 8, 30})


def test_a_dry_run_asks_shows_the_plan_and_changes_nothing(changed, answered, root, home):
    with unchanged(root, home / "data"):
        done = answered("a\nq\n", "restore", "-p", "-n", "last")
    assert "would restore 1 path and remove 0" in done.out


def test_with_json_the_questions_are_on_standard_error(changed, answered, root):
    done = answered("a\nn\ny\n", "restore", "-p", "--json", "last")
    assert done.json["restored"] == 1 and done.json["removed"] == 1 and "Apply this hunk" in done.err
    assert (root / "a.py").read_bytes() == b"".join(OLD) and not (root / "gone").exists() and not (root / "new").exists()
    assert answered("q\n", "restore", "-p", "--json", "last").json["restored"] == 0


def test_where_nothing_differs_nothing_is_asked(changed, casrewind, answered):
    casrewind("restore", "--yes", "last", code=0)
    done = answered("", "restore", "-p", "last")
    assert "nothing to do" in done.out and "Apply" not in done.out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--yes", "last"), "it takes no --yes"), (("--chat", "last"), "--chat and -p exclude each other"), ((), "which checkpoint?"),
        (("--to", "elsewhere", "last"), "--to and -p exclude each other"), (("--continue",), "--continue and -p exclude each other"),
    ],
)  # fmt: skip
def test_what_hunks_cannot_be_chosen_with(changed, answered, root, home, more, said):
    with unchanged(root, home / "data"):
        assert said in answered("y\n", "restore", "-p", *more, code=64).err


def test_answers_that_are_no_text_change_nothing(changed, answered, root, home):
    with unchanged(root, home / "data"):
        assert "an answer is not text" in answered(b"y\n\xff\xfe\n", "restore", "-p", "last", code=64, PYTHONIOENCODING="utf-8:strict").err


# -- on a terminal


def test_on_a_terminal_letters_are_typed(changed, terminal, root):
    session = terminal("restore", "-p", "last", environment={"NO_COLOR": "1"})
    session.read_until(b"(1/3) Apply this hunk [y,n,q,a,d,j,g,s,?]? ")
    session.type("s\n")
    session.read_until(b"(1/4) Apply")
    session.type("y\n")
    session.read_until(b"(2/4) Apply")
    session.type("d\n")
    session.read_until(b"Apply this addition")
    session.type("\x04")
    code, shown = session.end()
    assert code == 0 and b"chosen hunks only: 1 written" in shown and b"Go on?" not in shown
    assert (root / "a.py").read_bytes() == with_changes({8, 30, 50, 53, 56})


def test_an_interrupt_changes_nothing(changed, terminal, root, home):
    with unchanged(root, home / "data"):
        session = terminal("restore", "-p", "last")
        session.read_until(b"Apply this hunk")
        session.type("a\n")
        session.read_until(b"Apply this addition")
        session.sleep_until_it_reads()
        session.process.send_signal(signal.SIGINT)
        code, shown = session.end()
    assert code == 130 and b"Traceback" not in shown


@pytest.mark.parametrize("path", ["a.py", "new", "gone"])
def test_a_file_that_changes_while_it_asks(changed, terminal, root, path):
    session = terminal("restore", "-p", "last", environment={"NO_COLOR": "1"})
    session.read_until(b"(1/3) Apply")
    plant(root, {path: b"edited meanwhile\n"})
    before = picture(root)
    session.type("y\nn\nn\ny\ny\n")
    code, shown = session.end()
    assert code == 14 and f"{path} has changed since its parts were chosen: nothing was changed".encode() in shown
    assert b"choose again" in shown and picture(root) == before


def test_a_file_that_is_not_chosen_may_change(changed, terminal, root):
    session = terminal("restore", "-p", "last")
    session.read_until(b"Apply this hunk")
    plant(root, {"a.py": b"edited meanwhile\n", "other": b"came meanwhile\n"})
    session.type("d\nn\ny\n")
    code, _ = session.end()
    assert code == 0 and not (root / "new").exists() and (root / "other").exists()
    assert (root / "a.py").read_bytes() == b"edited meanwhile\n"


# -- a turn


@pytest.fixture
def turned(root, home):
    """An older turn changed a.py in three hunks, made `made` and removed `gone`; a person and a newer turn edited other lines."""
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    plant(root, {"a.py": b"".join(OLD), "gone": b"g\n"})
    with api.open(root, settings) as workspace:
        agent = AgentTurns(workspace, root)
        agent.prompt("p1", "change it")
        plant(root, {"a.py": with_changes(PLACES), "made": b"m\n"})
        (root / "gone").unlink()
        agent.stop("p1")
        plant(root, {"a.py": with_changes((*PLACES, 18))})
        agent.prompt("p2", "more of it")
        plant(root, {"a.py": with_changes((*PLACES, 18, 70))})
        agent.stop("p2")


def test_chosen_hunks_of_a_turn_are_taken_back(turned, casrewind, answered, root):
    before = picture(root)
    done = answered("n\ny\nn\ny\ny\n", "revert", "-p", "@2")
    assert (root / "a.py").read_bytes() == with_changes({5, 8, 18, 50, 53, 56, 70}), done.out
    assert (root / "gone").read_bytes() == b"g\n" and not (root / "made").exists()
    assert "-changed 30\n+line 30\n" in done.out and "chosen hunks only: 2 written, 1 REMOVED\n" in done.out and "Go on?" not in done.out
    casrewind("undo", "--yes", code=0)
    assert picture(root) == before
    done = answered("a\n", "revert", "-p", "@2", "a.py")
    assert (root / "a.py").read_bytes() == with_changes({18, 70}) and "merged" in done.out


def test_a_revert_of_no_hunk_changes_nothing(turned, answered, root, home):
    with unchanged(root, home / "data"):
        assert answered("d\nn\nq\n", "revert", "-p", "@2").out.endswith("nothing was changed\n")
        assert "it takes no --yes" in answered("", "revert", "-p", "--yes", "@2", code=64).err


def test_a_file_that_changes_while_a_revert_asks(turned, terminal, root):
    session = terminal("revert", "-p", "@2", environment={"NO_COLOR": "1"})
    session.read_until(b"(1/3) Apply")
    plant(root, {"a.py": with_changes((*PLACES, 18, 70, 75))})
    before = picture(root)
    session.type("y\nn\nn\ny\ny\n")
    code, shown = session.end()
    assert code == 14 and b"a.py has changed since its parts were chosen" in shown and picture(root) == before


@pytest.fixture
def taking_back(turned, root, home):
    """Take back chosen hunks of the older turn in a.py, which is then edited to have changes in these lines."""
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))

    def call(places, numbers):
        plant(root, {"a.py": with_changes(places)})
        with api.open(root, settings) as workspace:
            context = workspace._context
            view = TurnView(context)
            turn = view.find_turn("@2")
            found = view.comparison(view.with_changes(turn), (b"a.py",))
            edit = hunks.edit_without_hunks(found, found.changes[0], numbers)
            return changes.revert(context, view, [turn], [b"a.py"], hunks={b"a.py": edit})

    return call


@pytest.mark.parametrize("since", [(), (18, 70)])
def test_hunks_of_what_a_turn_did_are_taken_back_alone(taking_back, casrewind, root, since):
    report = taking_back((*PLACES, *since), {1})
    assert (root / "a.py").read_bytes() == with_changes({*PLACES, *since} - {30}) and not report.kept
    assert [item.path for item in report.merged] == ([b"a.py"] if since else [])
    casrewind("verify", code=0)
    casrewind("undo", "--yes", code=0)
    assert (root / "a.py").read_bytes() == with_changes((*PLACES, *since))


def test_all_hunks_of_a_turn_are_its_whole_change(taking_back, root):
    taking_back(PLACES, {0, 1, 2})
    assert (root / "a.py").read_bytes() == b"".join(OLD)


def test_a_hunk_that_was_edited_since_does_not_keep_the_others_from_being_taken_back(taking_back, root):
    assert [item.path for item in taking_back((5, 8, 31, 50, 53, 56), {1}).kept] == [b"a.py"]
    assert (root / "a.py").read_bytes() == with_changes((5, 8, 31, 50, 53, 56))
    assert not taking_back((5, 8, 31, 50, 53, 56), {0, 2}).kept
    assert (root / "a.py").read_bytes() == with_changes({31})


# -- what is one hunk


def test_each_other_change_is_one_question(casrewind, answered, root):
    plant(root, {"bin": b"\0a", "link": Link("a"), "mode": Mode(0o755, b"m\n"), "both": Mode(0o755, b"1\n"), "empty": b"", "kind": b"k\n"})
    casrewind.json("save")
    plant(root, {"bin": b"\0b", "mode": Mode(0o644, b"m\n"), "both": Mode(0o644, b"2\n")})
    for path in ("link", "empty", "kind"):
        (root / path).unlink()
    plant(root, {"link": Link("b"), "kind": Link("b")})
    letters = {"bin": "y", "both (mode)": "n", "both": "y", "empty": "y", "kind": "y", "link": "y", "mode": "y"}
    done = answered("\n".join(letters.values()), "restore", "-p", "last")
    assert done.out.count("? y\n") == 6 and done.out.count("? n\n") == 1, done.out
    assert (root / "bin").read_bytes() == b"\0a" and (root / "both").read_bytes() == b"1\n" and (root / "both").stat().st_mode & 0o777 == 0o644
    assert os.readlink(root / "link") == "a" and (root / "mode").stat().st_mode & 0o777 == 0o755
    assert (root / "empty").read_bytes() == b"" and (root / "kind").read_bytes() == b"k\n" and not (root / "kind").is_symlink()


def test_a_mode_is_restored_without_the_content(casrewind, answered, root):
    plant(root, {"text": Mode(0o755, b"1\n"), "bin": Mode(0o755, b"\0001")})
    casrewind.json("save")
    plant(root, {"text": Mode(0o644, b"2\n"), "bin": Mode(0o644, b"\0002")})
    answered("y\nn\ny\nn\n", "restore", "-p", "last")
    assert [(root / name).stat().st_mode & 0o777 for name in ("bin", "text")] == [0o755, 0o755]
    assert (root / "text").read_bytes() == b"2\n" and (root / "bin").read_bytes() == b"\0002"


def test_directories_come_and_go_with_what_is_in_them(casrewind, answered, root):
    plant(root, {"come/a": b"a\n", "come/b/c": b"c\n", "stay/x": b"x\n"})
    (root / "void").mkdir()
    casrewind.json("save")
    for path in ("come/b/c", "come/a"):
        (root / path).unlink()
    for path in ("come/b", "come", "void"):
        (root / path).rmdir()
    plant(root, {"go/1": b"1\n", "go/in/2": b"2\n", "half/1": b"1\n", "half/2": b"2\n"})
    done = answered("y\nn\ny\ny\ny\nn\nn\n", "restore", "-p", "last")
    assert done.out.count("Apply this") == 7, done.out
    assert (root / "come/a").exists() and not (root / "come/b").exists(), "a new directory comes with a chosen file only"
    assert not (root / "go").exists() and (root / "half/2").exists() and not (root / "half/1").exists() and not (root / "void").exists()


def test_empty_directories_in_each_other_are_one_question(casrewind, answered, root):
    plant(root, {"come/in/it": Dir(), "come-too": b"1\n"})
    casrewind.json("save")
    before = picture(root)
    (root / "come-too").unlink()
    for path in ("come/in/it", "come/in", "come"):
        (root / path).rmdir()
    plant(root, {"go/in": Dir(), "go-too": b"1\n"})
    assert answered("y\ny\ny\ny\n", "restore", "-p", "last").out.count("Apply this") == 4
    assert picture(root) == before


def test_a_directory_in_the_place_of_a_file_is_one_question(casrewind, answered, root):
    plant(root, {"file": b"f\n", "dir/a": b"a\n", "dir/b": b"b\n"})
    casrewind.json("save")
    before = picture(root)
    (root / "file").unlink()
    for name in ("a", "b"):
        (root / "dir" / name).unlink()
    (root / "dir").rmdir()
    plant(root, {"file/a": b"a\n", "dir": b"now a file\n", "file-x": b"x\n"})
    now = picture(root)
    assert answered("n\nn\n", "restore", "-p", "last").out.count("Apply this change") == 2
    assert picture(root) == now
    answered("y\ny\ny\n", "restore", "-p", "last")
    assert picture(root) == before


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_line_ends_stay(casrewind, answered, root, end):
    lines = [b"%d" % number for number in range(40)]
    plant(root, {"f": end.join(lines)})
    casrewind.json("save")
    new = [*lines]
    new[3], new[39] = b"three\r", b"last" + end
    plant(root, {"f": end.join(new)})
    answered("n\ny\n", "restore", "-p", "last")
    new[39] = lines[39]
    assert (root / "f").read_bytes() == end.join(new)


@pytest.mark.turns(3)
def test_chosen_hunks_may_make_a_large_file(casrewind, answered, root):
    one, other, common = (b"".join(b"%s %d\n" % (name, number) for number in range(60_000)) for name in (b"one", b"other", b"c"))
    common = common[: 100 << 10]
    plant(root, {"f": common + other[: 800 << 10]})
    casrewind.json("save")
    plant(root, {"f": one[: 800 << 10] + common})
    answered("n\ny\n", "restore", "-p", "last")
    assert (root / "f").read_bytes() == one[: 800 << 10] + common + other[: 800 << 10]
    casrewind("verify", code=0)
    casrewind("undo", "--yes", code=0)


# -- the same letters as git's

SEQUENCES = [
    "yny", "nyn", "yyy", "nnn", "a", "d", "ya", "yd", "na", "nd", "q", "yq", "nyq", "yyq", "sya", "snyq", "synnsyny", "nnsnyn", "nnsyq", "s?yynd",
    "jyny", "jjy yn", "jykn", "jkjya", "jjkyny", "jaq", "jdy", "jda", "g3y yn", "g2nyy", "g1y ny", "g3sa yy", "jg1yyn", "kyyy", "jjjyyy",
    "ssyyyy", "sjsynyyy", "x y n y", "g9yyy", "ng1yyy", "yg1nyn", "sg2ya",
]  # fmt: skip


def letters_of(sequence):
    """One letter a line; a digit belongs to the letter before it."""
    lines = []
    for letter in sequence.replace(" ", ""):
        if letter.isdigit():
            lines[-1] += letter
        else:
            lines.append(letter)
    return "".join(f"{line}\n" for line in lines)


def ours(letters, old, new, monkeypatch):
    sides = [Entry(FILE, 0o644, len(side), 0, digest.of(side)) for side in (old, new)]
    change = Change(b"f", *sides)
    found = Comparison((change,), (), lambda *_: old, lambda *_: new)
    monkeypatch.setattr(sys, "stdin", io.StringIO(letters))
    with io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) as shown:
        edit = hunk_questions.ask_for_each_change(found, shown).get(b"f")
    return old if edit is None else edit.data if edit.data is not None else new


def gits(letters, repository, old):
    subprocess.run(["git", "update-index", "--cacheinfo", f"100644,{old},f"], cwd=repository, env=GIT, check=True)
    subprocess.run(["git", "add", "-p", "f"], cwd=repository, env=GIT, input=letters.encode(), capture_output=True, check=True)
    return subprocess.run(["git", "cat-file", "blob", ":f"], cwd=repository, env=GIT, capture_output=True, check=True).stdout


def test_the_letters_mean_what_they_mean_in_git(tmp_path, monkeypatch):
    old, new = b"".join(OLD), with_changes(PLACES)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=GIT, check=True)
    plant(tmp_path, {"f": old})
    subprocess.run(["git", "add", "f"], cwd=tmp_path, env=GIT, check=True)
    blob = subprocess.run(["git", "hash-object", "f"], cwd=tmp_path, env=GIT, capture_output=True, check=True, text=True).stdout.strip()
    plant(tmp_path, {"f": new})
    chance = random.Random(7)
    some = ["".join(chance.choices("yynnadqs?x", k=chance.randrange(1, 9))) for _ in range(60)]
    results = set()
    for sequence in [*SEQUENCES, *some]:
        letters = letters_of(sequence)
        result = ours(letters, old, new, monkeypatch)
        assert result == gits(letters, tmp_path, blob), sequence
        results.add(result)
    assert len(results) > 10
