"""What a message proposes can be typed as it stands, and is what was meant."""

import os
import shlex
import shutil
import subprocess

import pytest

from support.agent_turns import AgentTurns
from support.trees import plant


@pytest.fixture
def turns(workspace, root):
    """@2 changed "app.py", @1 changed "a b.py"; then a save with a label of two words."""
    plant(root, {"app.py": b"1\n", "a b.py": b"1\n", "still": b"1\n"})
    workspace.save()
    agent = AgentTurns(workspace, root)
    for name, file in (("a", "app.py"), ("b", "a b.py")):
        agent.prompt(name, f"change {file}")
        plant(root, {file: b"2\n"})
        agent.stop(name)
    workspace.save("after: fmt")
    return agent


def proposed(message):
    """The words of the command at the end of a message, up to ` means ` or ` restores `."""
    _, _, text = message.strip().rpartition("casrewind ")
    for end in (" restores ", " means ", " lists ", " captures "):
        text = text.partition(end)[0]
    return shlex.split(text)


def test_a_label_in_a_hint_is_quoted(turns, casrewind):
    assert proposed(casrewind("revert", "after: fmt", code=64).err) == ["restore", "after: fmt"]


def test_a_path_in_a_hint_is_quoted(turns, root, casrewind):
    plant(root, {"it's/node_modules/f": b"1"})
    assert proposed(casrewind("why", "it's/node_modules", code=0).out) == ["include", "it's/node_modules"]


@pytest.mark.parametrize(("word", "turn"), [("app.py", "@2"), ("a b.py", "@1")])
def test_a_path_in_place_of_a_ref_is_restored_to_before_the_turn_that_changed_it(turns, root, casrewind, word, turn):
    words = proposed(casrewind("restore", word, "-y", code=15).err)
    assert words == ["restore", turn, word]
    casrewind(*words, "-y", code=0)
    assert (root / word).read_bytes() == b"1\n"


def test_a_path_that_no_turn_changed_is_restored_from_the_newest_checkpoint(turns, root, casrewind):
    plant(root, {"still": b"edited\n"})
    words = proposed(casrewind("restore", "still", "-y", code=15).err)
    assert words == ["restore", "last", "--", "still"]
    casrewind(*words[:2], "-y", *words[2:], code=0)
    assert (root / "still").read_bytes() == b"1\n"


@pytest.mark.parametrize("words", [("revert", "@1", "@2"), ("revert", "1", "2"), ("revert", "@1", "app.py", "@2")])
def test_two_turns_are_reverted_one_at_a_time(turns, casrewind, words):
    refused = casrewind(*words, "-y", code=64).err
    assert f"{words[-1]} is another turn, and after a turn revert takes paths; casrewind revert @2..@1 " in refused
    assert "changed nothing" not in refused


@pytest.mark.parametrize("word", ["branch", "checkout", "worktree"])
def test_what_makes_a_second_copy_elsewhere_is_restore_to(casrewind, word):
    refused = casrewind(word, code=64).err
    assert "casrewind restore REF --to DIR" in refused and "did you mean" not in refused and refused.count("\n") == 1


@pytest.mark.parametrize("line", ["install claude --resident", "install --no-resident"])
def test_words_of_an_earlier_version_say_that_the_helper_is_gone(casrewind, line):
    refused = casrewind(*line.split(), code=64).err
    assert "the background helper is gone, and nothing needs it" in refused and "did you mean" not in refused


@pytest.mark.parametrize("word", ["describe", "merge", "rebase"])
def test_nothing_is_proposed_for_a_word_that_is_far_from_all(casrewind, word):
    refused = casrewind(word, code=64).err
    assert "did you mean" not in refused and "casrewind help --all" in refused


@pytest.mark.parametrize(
    ("word", "meant"), [("lst", "list"), ("stauts", "status"), ("udno", "undo"), ("restroe", "restore"), ("sav", "save"), ("rever", "revert"), ("bakc", "back")]
)
def test_a_misspelt_word_is_found(casrewind, word, meant):
    assert f"did you mean {meant}?" in casrewind(word, code=64).err


@pytest.mark.parametrize("name", ["l\nsrc", "-n", ":(top)z", "it's \t\\", "\x1b[1m", b"\xff b"])
def test_an_odd_name_in_a_hint_can_be_pasted(root, casrewind, name):
    plant(root, {os.path.join(name, "node_modules", "f") if isinstance(name, str) else name + b"/node_modules/f": b"1"})
    path = os.fsencode(name) + b"/node_modules"
    (_, _, hint) = casrewind("why", "--", path, code=0).out.partition("casrewind include ")
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("needs bash")
    pasted = subprocess.run([shell, "-c", f"printf %s {hint.partition(' captures ')[0]}"], capture_output=True, check=True).stdout
    assert pasted.removeprefix(b"./") == path and not pasted.startswith((b"-", b":"))
