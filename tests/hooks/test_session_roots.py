"""A session's root is decided at its start and at each prompt, and stays until the next one, wherever the agent goes."""

import json
from pathlib import Path

import pytest

from casrewind import agents
from casrewind.agents.client import dashed_project_name
from casrewind.worktree import root as roots
from support import forked_command
from support.command_in_process import InProcess
from support.folding_filesystem import mounted
from support.git_repository import add_worktree, git, make_repository
from support.sample_start import crossed
from support.trees import plant

DATA = Path(__file__).parent.parent / "agents" / "data"
RECORDED = {  # a session's start, its prompt, a tool that is about to run, the turn's end
    "claude": ("claude_hooks", "SessionStart.startup", "UserPromptSubmit.prompt", "PreToolUse.Bash", "Stop.plain"),
    "generic": ("claude_hooks", "SessionStart.startup", "UserPromptSubmit.prompt", "PreToolUse.Bash", "Stop.plain"),
    "qwen": ("claude_hooks", "SessionStart.startup", "UserPromptSubmit.prompt", "PreToolUse.Bash", "Stop.plain"),
    "codex": ("codex_hooks", "SessionStart.startup", "UserPromptSubmit", "PreToolUse.Bash", "Stop"),
    "pi": ("pi_hooks", "SessionStart.startup", "UserPromptSubmit", "PreToolUse.bash", "Stop"),
    "opencode": ("opencode_hooks", "SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"),
    "cursor": ("cursor_hooks", "sessionStart", "beforeSubmitPrompt", "preToolUse", "stop"),
    "copilot": ("copilot_hooks", "sessionStart.new", "userPromptSubmitted", "preToolUse.bash", "agentStop"),
    "gemini": ("gemini_hooks", "SessionStart.startup", "BeforeAgent", "BeforeTool.run_shell_command", "AfterAgent"),
    "droid": ("droid_hooks", "SessionStart.startup", "UserPromptSubmit", "PreToolUse.Execute", "Stop"),
}
START, PROMPT, TOOL, END = range(1, 5)


class Session:
    """A session of a client whose hooks are called with recorded payloads, from any directory."""

    def __init__(self, agent, casrewind, session="11111111-1111-4111-8111-111111111111", *, project=None):
        self.agent, self.casrewind, self.id, self.project = agent, casrewind, session, project
        self.client = agents.load_client(agent)

    def event(self, which, cwd, **fields):
        """Call the hook. `project`: the directory that the client's variable names, None = it names none."""
        directory, name = RECORDED[self.agent][0], RECORDED[self.agent][which]
        payload = json.loads((DATA / directory / f"{name}.json").read_text())
        payload = payload.get("stdin", payload)
        payload = json.loads(payload) if isinstance(payload, str) else payload
        names = self.client.events.fields
        own = next(name for name in names["session"] if name in payload)
        payload |= {own: self.id, "cwd": str(cwd), **fields}
        if "workspace_roots" in payload:
            payload["workspace_roots"] = [str(fields.get("workspace_root", self.casrewind.root))]
        event = self.client.event_argument(name.partition(".")[0])
        variables = {} if self.project is None else dict.fromkeys(self.client.events.root_variables, str(self.project))
        environment = {**self.casrewind.environment, "CASREWIND_TIER": "aggressive", **variables}
        words = ["hook", *filter(None, (self.agent, event))]
        code, _, err = forked_command.run(words, environment, stdin=json.dumps(payload).encode(), cwd="/", timeout=60)
        assert (code, err) == (0, b"")

    def turn(self, places, changes):
        """A turn: the prompt in the first of the places, the tool in the second, the end in the third."""
        self.event(PROMPT, places[0])
        plant(places[0], changes)
        self.event(TOOL, places[1])
        self.event(END, places[2])


@pytest.fixture
def nested(casrewind, root):
    """A project with a nested repository; its directory."""
    plant(root, {"app.py": b"one\n", "vendor/lib/lib.py": b"lib\n"})
    make_repository(root / "vendor" / "lib")
    git(root, "init", "-q")
    casrewind("save", code=0)
    return root / "vendor" / "lib"


def turns(casrewind):
    found = casrewind("list", "--json")
    return [(turn["changes"], turn["cut_short"]) for turn in found.json["turns"]] if found.code == 0 else []


ONE = [({"added": 1, "modified": 0, "removed": 0}, False)]


def stores(home):
    return sorted(path.name.rpartition("-")[0] for path in (Path(home) / "data" / "stores").iterdir())


@pytest.mark.parametrize("agent", RECORDED)
def test_a_turn_that_enters_a_nested_repository_ends_where_it_began(casrewind, root, home, nested, agent):
    """The client names no project: its working directory is all that a hook knows."""
    session = Session(agent, casrewind)
    session.event(START, root)
    session.turn((root, nested, nested), {"made.py": b"made\n"})
    assert turns(casrewind) == ONE, casrewind("list").out
    session.turn((nested, nested, root), {"later.py": b"x\n"})  # the client is still there
    assert len(turns(casrewind)) == 2
    assert stores(home) == [root.name]


@pytest.fixture(scope="module")
def folding(tmp_path_factory):
    with mounted(tmp_path_factory.mktemp("fold")) as (point, _):
        yield point


@pytest.mark.parametrize(("agent", "names"), crossed(RECORDED, [False, True]))
def test_hooks_that_report_either_spelling_of_a_path_are_of_one_project(folding, home, agent, names):
    """The turn begins in one spelling and ends in the other, and the next one the other way round."""
    above = folding / f"{agent}-{names}"
    listed, other = above / "Work" / "Proj", above / "work" / "PROJ"
    plant(listed, {"app.py": b"one\n", "Src/x": b"1"})
    casrewind = InProcess(listed, home)
    casrewind("save", code=0)
    session, inner = Session(agent, casrewind), Path("Src")
    for number, (one, two) in enumerate([(listed, other), (other, listed)], start=1):
        session.project = one if names else None
        session.event(START, one)
        session.event(PROMPT, one, workspace_root=str(one))
        plant(listed, {f"made {number}.py": b"made\n"})
        session.project = two if names else None
        session.event(TOOL, two / inner, workspace_root=str(two))
        session.event(END, two / inner, workspace_root=str(two))
        assert turns(casrewind) == turns(InProcess(other, home)) == ONE * number, casrewind("list").out
    assert stores(home) == ["Proj"]


@pytest.mark.turns(3)
@pytest.mark.parametrize("start", ["Proj", "PROJ"])
def test_a_session_that_goes_into_a_worktree_is_of_it_in_either_spelling(folding, home, start):
    """The client names its files after the path with which it was started."""
    above = folding / f"with worktree {start == 'Proj'}"
    listed, root = above / "Proj", above / start
    listed.mkdir(parents=True)
    make_repository(listed)
    inner = add_worktree(root)
    InProcess(inner, home)("save", code=0)  # the first checkpoint is the work of a process that no hook waits for
    session = Session("claude", InProcess(listed, home), project=root)
    transcripts = home / ".claude" / "projects" / dashed_project_name(str(inner))
    plant(transcripts, {f"{session.id}.jsonl": b""})
    plant(inner, {"new": b"x"})
    session.event(PROMPT, inner, transcript_path=str(transcripts / f"{session.id}.jsonl"))
    found = InProcess(listed / ".claude/worktrees/w1", home).json("list")["checkpoints"]
    assert [point["trigger"] for point in found] == ["prompt", "manual"]
    assert stores(home) == ["Proj"]


@pytest.mark.parametrize("agent", RECORDED)
def test_a_turn_that_leaves_the_project_ends_where_it_began(casrewind, root, home, nested, agent, tmp_path):
    plant(tmp_path / "elsewhere", {"other": b"x"})
    InProcess(tmp_path / "elsewhere", home)("save", code=0)
    session = Session(agent, casrewind)
    session.event(START, root)
    session.turn((root, tmp_path / "elsewhere", tmp_path), {"made.py": b"made\n"})
    assert turns(casrewind) == ONE, casrewind("list").out
    assert casrewind.json("list")["checkpoints"][0]["trigger"] == "turn_end"
    assert stores(home) == ["elsewhere", root.name]


@pytest.mark.parametrize("agent", ["claude", "qwen", "codex", "gemini"])
def test_a_compaction_in_the_middle_of_a_turn_moves_nothing(casrewind, root, home, nested, agent):
    """The client tells of it as of a start."""
    session = Session(agent, casrewind)
    session.event(START, root)
    session.event(PROMPT, root)
    plant(root, {"made.py": b"made\n"})
    session.event(START, nested, source="compact")
    session.event(END, nested)
    assert turns(casrewind) == ONE and stores(home) == [root.name]


def test_a_session_that_a_person_starts_in_a_nested_repository_is_of_that_one(casrewind, root, home, nested):
    inner = InProcess(nested, home)
    Session("codex", casrewind).event(START, root)
    session = Session("codex", casrewind)
    session.event(START, nested)
    session.turn((nested, nested, root), {"made.py": b"made\n"})
    assert turns(inner) == ONE and turns(casrewind) == []
    session.event(START, root)  # resumed around it
    session.turn((root, nested, nested), {"more.py": b"made\n"})
    assert turns(inner) == ONE and turns(casrewind) == ONE


@pytest.mark.parametrize("agent", ["claude", "droid"])
def test_a_nested_repository_never_wins_where_the_client_names_the_project(casrewind, root, home, nested, agent):
    session = Session(agent, casrewind, project=root)
    session.event(START, root)
    session.turn((root, nested, nested), {"made.py": b"made\n"})
    session.turn((nested, nested, nested), {"lib2.py": b"made\n"})
    assert len(turns(casrewind)) == 2
    assert stores(home) == [root.name]


class Worktree:
    """A checkout with a worktree inside, and a session of Claude Code in the checkout's client."""

    def __init__(self, casrewind, root, home):
        plant(root, {"app.py": b"one\n", ".gitignore": b"/.claude/\n"})
        make_repository(root)
        casrewind("save", code=0)
        self.root, self.place = root, add_worktree(root)
        self.inner = InProcess(self.place, home)
        self.session = Session("claude", casrewind, project=root)
        self.projects = Path(home) / ".claude" / "projects"

    def transcript(self, directory, lines=()):
        """The transcript as the client names it, when it works in a directory."""
        path = self.projects / dashed_project_name(str(directory)) / f"{self.session.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return {"transcript_path": str(path)}

    def turn(self, transcript, changes, *, where, end=None):
        self.session.event(PROMPT, where, **transcript)
        plant(where, changes)
        self.session.event(END, where, **(end or transcript))


@pytest.fixture
def worktree(casrewind, root, home):
    return Worktree(casrewind, root, home)


def state(place):
    """The line in which Claude Code notes that it works in a worktree, or None: that it left it."""
    return {"type": "worktree-state", "worktreeSession": place and {"worktreePath": str(place)}, "sessionId": "s"}


def test_a_prompt_in_the_worktree_into_which_the_client_went_back_is_of_the_worktree(casrewind, worktree):
    worktree.session.event(START, worktree.root, **worktree.transcript(worktree.root))
    worktree.turn(worktree.transcript(worktree.place), {"w": b"x"}, where=worktree.place)
    assert turns(worktree.inner) == ONE and turns(casrewind) == []


def test_a_turn_in_which_the_agent_enters_a_worktree_stays_in_the_checkout_and_the_next_one_is_of_the_worktree(casrewind, worktree):
    out, into = worktree.transcript(worktree.root), worktree.transcript(worktree.place)
    worktree.session.event(START, worktree.root, **out)
    worktree.session.event(PROMPT, worktree.root, **out)
    plant(worktree.root, {"m": b"x"})
    worktree.session.event(END, worktree.place, **into)
    assert turns(casrewind) == ONE and turns(worktree.inner) == []
    worktree.turn(into, {"w": b"x"}, where=worktree.place, end=out)  # it leaves it in this turn
    assert turns(casrewind) == ONE and turns(worktree.inner) == ONE
    worktree.turn(out, {"m2": b"x"}, where=worktree.root)
    assert len(turns(casrewind)) == 2 and turns(worktree.inner) == ONE


@pytest.mark.parametrize("said", [(), (None,), ("w1", None)])
def test_a_worktree_that_the_agent_only_enters_by_cd_does_not_win(casrewind, worktree, said):
    lines = [state(word and worktree.place) for word in said]
    worktree.turn(worktree.transcript(worktree.root, lines), {"m": b"x"}, where=worktree.place)
    assert turns(worktree.inner) == [] and len(turns(casrewind)) == 1


def test_where_the_directory_of_transcripts_tells_nothing_the_client_s_word_in_the_transcript_counts(casrewind, worktree):
    """A variable of the client gives that directory another name."""
    lines = [state(worktree.root / "other"), state(worktree.place), {"type": "assistant", "message": "x" * 100_000}]
    worktree.turn(worktree.transcript("/named", lines), {"w": b"x"}, where=worktree.place)
    assert turns(worktree.inner) == ONE and turns(casrewind) == []


def test_a_worktree_that_is_gone_at_the_end_of_its_turn_leaves_the_end_in_the_checkout(casrewind, worktree):
    into = worktree.transcript(worktree.place)
    worktree.session.event(PROMPT, worktree.place, **into)
    git(worktree.root, "worktree", "remove", "--force", ".claude/worktrees/w1")
    worktree.session.event(END, worktree.root, **worktree.transcript(worktree.root))
    points = casrewind.json("list")["checkpoints"]
    assert points[0]["trigger"] == "turn_end" and points[0]["session"] == worktree.session.id


def test_the_agent_s_shell_is_told_of_the_root_of_its_turn(casrewind, worktree, tmp_path):
    worktree.session.event(PROMPT, worktree.place, **worktree.transcript(worktree.place), CLAUDE_ENV_FILE=str(tmp_path / "env"))
    assert str(worktree.place) in (tmp_path / "env").read_text()
    assert roots.key_of(str(worktree.place)).hex() in (Path(casrewind.json("status")["store"]) / "session.json").read_text()
