"""A newcomer's path, by what the README says and nothing else: install, connect, three turns, wreck, pick, restore, resume, away.

Every command line and key is taken out of the README's text, or out of what was printed on the way.
"""

import re
import tempfile
from types import SimpleNamespace

import pytest

from support import real_clients
from support.claude_model import bash, call
from support.newcomer import Newcomer, Readme
from support.picture import differences, picture
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-newcomer"), pytest.mark.timeout(600), *real_clients.at_times("newcomer")]

TILL = b"def total(prices):\n    return sum(prices)\n"
PROMPTS = ["please round to cents", "please write a test", "please clean up"]


@pytest.fixture(scope="module")
def went():
    """The whole way, and what was seen on it."""
    with tempfile.TemporaryDirectory(prefix="n") as base:  # a short path: a socket lies in it
        newcomer = Newcomer(base)
        try:
            yield walk(newcomer, Readme())
        finally:
            newcomer.stop()


def walk(newcomer, readme):
    found = SimpleNamespace(newcomer=newcomer, pictures=[])
    venv = Readme("docs/wheels.md")
    project, clone = newcomer.home / "shop", newcomer.home / "casrewind"
    plant(project, {"till.py": TILL, "prices.csv": b"apple,1.10\n", "notes/today.md": b"sell apples\n"})
    found.clone = picture(clone)

    newcomer.type("cd ~/casrewind")
    for line in venv.lines("Without uv or pipx"):  # the way that needs no further program
        newcomer.type(line)
    found.clone_after = picture(clone)
    found.walls = newcomer.type("touch /etc/casrewind-was-here || echo kept out") if newcomer.walled else None

    newcomer.type("cd ~/shop")
    found.installed, found.doctor = (newcomer.type(line) for line in readme.lines("Connect your agent"))

    inside = f"{newcomer.place}/shop"
    newcomer.model.script = {
        "round to cents": [[call("Write", file_path=f"{inside}/rounding.py", content="CENTS = 2\n")], ["Done."]],
        "write a test": [[bash("mkdir tests; echo 'import till' > tests/test_till.py; sed -i 's/sum(prices)/round(sum(prices), 2)/' till.py")], ["Done."]],
        "clean up": [[bash("rm -rf notes prices.csv tests; echo '# cleaned up' > till.py; ln -s /etc everything")], ["All clean."]],
    }
    for number, prompt in enumerate(PROMPTS):
        found.pictures.append(picture(project))
        newcomer.type(f'claude {"--continue " if number else ""}-p "{prompt}"')
    found.wrecked = picture(project)
    for _ in range(200):  # the end of a session is not waited for
        found.listed = newcomer.type("casrewind list --all")
        if found.listed.count("session end") == 3:
            break

    picker = readme.word(r"run `(casrewind)` alone")
    both, yes, leave = (
        readme.word(pattern) for pattern in (r"the conversation, and `(\w)` restores both", r"`(\w)` confirms", r"`(\w)` quits")
    )
    newcomer.begin(picker)
    newcomer.shows("3 turns", PROMPTS[2])  # it opens on the newest turn that changed something
    newcomer.keys(both)
    found.asked = newcomer.shows("Restore chat and files", "taken back: ", "Go on?")
    found.before_yes = picture(project)
    newcomer.keys(yes)
    newcomer.shows("Done", "forked: ")
    newcomer.keys("Enter")
    newcomer.hides("forked: ")  # the dialog is closed: until then, a key would be its own
    newcomer.shows("restored to before")
    newcomer.keys(leave)
    found.said = newcomer.end(picker)
    found.restored = picture(project)

    resume = re.search(r"^forked: (.+?)\s*$", found.said, re.MULTILINE)[1]
    newcomer.begin(resume)
    newcomer.shows("accept edits on")
    asked = len(newcomer.model.requests)
    newcomer.keys("-l", "what now")
    newcomer.shows("what now")
    newcomer.keys("Enter")
    found.request = newcomer.model.wait_for(asked + 1)
    newcomer.shows("OK.")
    newcomer.keys("-l", "/exit")
    newcomer.shows("/exit")
    newcomer.keys("Enter")
    newcomer.end(resume)

    undo = readme.word(r"\| `(casrewind undo)` \|")
    newcomer.begin(undo)
    newcomer.shows("[y/N")
    newcomer.keys("y")
    found.undone = newcomer.end(undo)
    found.wrecked_again = picture(project)
    newcomer.type(readme.lines("Uninstall")[0])
    newcomer.type(venv.word(r"`(rm -r ~/\.local/casrewind [^`]+)`"))
    return found


def test_nothing_on_this_machine_could_help_or_was_changed(went):
    assert went.walls is None or went.walls.endswith("kept out")  # None: where no namespaces are allowed


def test_the_hooks_work_as_soon_as_they_are_installed(went):
    assert went.installed.startswith("installed: Claude Code") and went.doctor.startswith("all well")


def test_three_turns_are_twelve_checkpoints(went):
    assert all(prompt in went.listed for prompt in PROMPTS)
    assert [went.listed.count(words) for words in ("session start", "turn end", "session end")] == [3, 3, 3]


def test_the_picker_asks_before_it_changes_anything(went):
    assert PROMPTS[2] in went.asked and PROMPTS[1] not in went.asked.partition("taken back:")[2].partition("Go on?")[0]
    assert differences(went.before_yes, went.wrecked) == {} and differences(went.wrecked, went.pictures[2]) != {}


def test_the_files_are_those_of_before_the_prompt(went):
    assert differences(went.restored, went.pictures[2]) == {}
    assert "restored to " in went.said and "casrewind undo takes this back" in went.said


def test_the_command_that_was_printed_goes_on_from_the_turns_before(went):
    assert went.request.prompts == [*PROMPTS[:2], "what now"]
    assert "cleaned up" not in str(went.request.body["messages"])
    assert went.newcomer.model.strangers == []


def test_the_restore_can_be_undone_later(went):
    assert re.search("^undone: ", went.undone, re.MULTILINE) and differences(went.wrecked_again, went.wrecked) == {}


def test_nothing_is_left_but_the_checkpoints_and_what_is_not_ours(went):
    home = went.newcomer.home
    assert (home / ".local/share/casrewind/stores").is_dir()
    ours = {str(path.relative_to(home)) for path in home.rglob("*") if "casrewind" in path.name and home / "casrewind" not in [path, *path.parents]}
    assert {path for path in ours if not path.startswith(".local/share/casrewind/")} == {".local/share/casrewind"}
    assert not (home / ".claude/settings.json").exists() or "casrewind" not in (home / ".claude/settings.json").read_text()
    changed = {path for path in differences(went.clone_after, went.clone) if path.partition(b"/")[0] != b"__pycache__"}  # git ignores it
    assert changed == set(), "an installation changes nothing in the repository"
