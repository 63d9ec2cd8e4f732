"""`casrewind back` typed more than once: what is taken back already does not come again, and a fork that is there is not made anew."""

import os

import pytest

import casrewind as api
from casrewind import errors
from support.picture import picture
from support.trees import plant

from .test_back_turns import Conversation, processes  # noqa: F401 - a fixture
from .test_typed_plans import line_of, shop, typed  # noqa: F401 - a fixture


def sessions_of(conversation):
    """The sessions that the client has."""
    return sorted(os.listdir(conversation.path.parent))


@pytest.fixture
def back_one(shop, root, casrewind):  # noqa: F811 - the fixture
    """The shop after a terminal's `back 1`: @1 is taken back. (conversation, pictures before @1, @2, @3)."""
    first, pictures = shop
    casrewind("back", "1", "-y", code=0)
    assert picture(root) == pictures[0] and casrewind.json("list")["turns"][0]["taken_back"]
    return first, pictures


def test_back_goes_on_to_the_newest_prompt_that_is_not_taken_back(back_one, root, casrewind):
    first, pictures = back_one
    done = casrewind("back", "-y", code=0)
    assert picture(root) == pictures[1] and "@1 is taken back already; the newest that is not is @2" in done.err and "(@2" in done.out
    report = casrewind.json("back", "-y")
    assert picture(root) == pictures[2] and report["turn"] == 3 and report["notes"] == ["@1 and @2 are taken back already; the newest that is not is @3"]


def test_in_a_client_a_second_back_shows_its_plan_though_it_is_small(shop, root):  # noqa: F811 - the fixture
    first, pictures = shop
    assert "restored to before" in typed(first, "/casrewind back") and picture(root) == pictures[0]
    before = sessions_of(first)
    plant(root, {"README.md": b"read me", "plan.md": b"mine"})
    (root / "plan.md").unlink()
    plan = typed(first, "/casrewind back")
    assert sessions_of(first) == before and "till.py" in plan and (root / "till.py").read_bytes() == b"2"
    assert plan.startswith("@1 is taken back already; the newest that is not is @2\nback to before"), plan
    assert "restored to before" in typed(first, line_of(plan)) and picture(root) == pictures[1]


@pytest.mark.parametrize("word", ["1", "@1", "2", "1 --code", "@2 --keep-edits"])
def test_a_number_of_a_turn_that_is_taken_back_never_goes_forward(shop, root, casrewind, word):  # noqa: F811 - the fixture
    first, pictures = shop
    casrewind("back", "3", "-y", code=0)
    before, forks = picture(root), sessions_of(first)
    turn = word.split()[0].removeprefix("@")
    for dry_run in ((), ("-n",), ("-y", "--json")):
        refused = casrewind("back", *word.split(), *(dry_run or ("-y",)), code=16)
        assert f"@{turn} is taken back already; nothing was changed" in refused.err and "casrewind list" in refused.err
    assert f"@{turn} is taken back already" in typed(first, f"/casrewind back {word}")
    assert picture(root) == before == pictures[2] and sessions_of(first) == forks


def test_back_to_where_the_files_are_changes_nothing_and_forks_nothing(back_one, root, casrewind):
    first, pictures = back_one
    forks = sessions_of(first)
    (fork,) = set(forks) - {first.path.name, first.client.transcript.name}
    for _ in range(2):
        done = casrewind("back", "1", "-y", code=0)
        assert ": no file changed\n" in done.out and f"continue the conversation: claude --resume {fork.removesuffix('.jsonl')}\n" in done.out
        assert "@1 is taken back already" in done.err
    assert "/resume" in typed(first, "/casrewind back 1") and "nothing to do" not in typed(first, "/casrewind back 1")
    assert sessions_of(first) == forks and picture(root) == pictures[0]


def test_a_conversation_that_went_on_is_forked_anew(back_one, root, casrewind):
    first, _ = back_one
    report = casrewind.json("back", "1", "-y")
    assert report["fork"]["mode"] == "forked_before"
    with open(report["fork"]["path"], "ab") as file, open(first.path, "rb") as old:
        file.write(old.readlines()[-1].replace(b"give change", b"another way"))
    again = casrewind.json("back", "1", "-y")
    assert again["fork"]["mode"] == "fork" and again["fork"]["session_id"] != report["fork"]["session_id"]


def test_the_conversation_alone_is_forked_once(shop, root, casrewind):  # noqa: F811 - the fixture
    first, _ = shop
    report = casrewind.json("back", "--chat")
    again = casrewind.json("back", "--chat")
    assert again["fork"]["session_id"] == report["fork"]["session_id"] and again["turn"] == report["turn"] == 1
    assert casrewind.json("back", "2", "--chat")["fork"]["session_id"] != report["fork"]["session_id"]


def test_what_a_revert_took_back_and_what_an_undo_brought_again(shop, root, casrewind):  # noqa: F811 - the fixture
    casrewind("revert", "@1", "-y", code=0)
    assert casrewind.json("back", "-n")["turn"] == 2
    casrewind("undo", "-y", code=0)
    assert casrewind.json("back", "-n")["turn"] == 1 and casrewind.json("back", "-n")["notes"] == []


def test_if_all_is_taken_back_nothing_is_left_to_go_back_to(shop, root, casrewind):  # noqa: F811 - the fixture
    first, pictures = shop
    casrewind("back", "3", "-y", code=0)
    for words in (("-y",), ("-n",), ("--code", "-y")):
        assert "all prompts of this conversation are taken back already; nothing was changed" in casrewind("back", *words, code=16).err
    assert "are taken back already" in typed(first, "/casrewind back") and picture(root) == pictures[2]


def test_the_api_skips_it_too_and_says_which(back_one, root, home):
    _, pictures = back_one
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    with api.open(root, settings) as project:
        assert project.back(None, chat=False).notes == ("@1 is taken back already; the newest that is not is @2",)
        assert picture(root) == pictures[1]
        with pytest.raises(errors.AgentError, match="@1 is taken back already; nothing was changed"):
            project.back(1, chat=False)
    assert picture(root) == pictures[1]


def test_a_result_says_nothing_to_type_that_would_change_something(shop, root):  # noqa: F811 - the fixture
    first, _ = shop
    assert "--copy" not in typed(first, "/casrewind back")


def test_a_wrong_word_in_a_client_lists_what_can_be_typed_in_lines_that_fit(shop):  # noqa: F811 - the fixture
    answer = typed(shop[0], "/casrewind frobnicate")
    assert "revert N" in answer and " yes " in answer
    for said in (answer, typed(shop[0], "/casrewind help")):
        assert max(map(len, said.splitlines())) <= 78 and "yes" in said


def test_what_a_client_cannot_type_is_said_to_be_for_a_terminal(shop, root):  # noqa: F811 - the fixture
    first, _ = shop
    plant(root, {f"many{number}": b"1" for number in range(41)})
    for line in ("/casrewind back 1", "/casrewind restore @1 -n"):
        assert "\n  ... and 22 more; in a terminal, --dry-run --json lists all of them\n" in typed(first, line), line


@pytest.mark.parametrize("words, name", [((), "@1"), (("2",), "@2"), (("--code",), "@1"), (("3", "--chat"), "@3")])
def test_a_dry_run_says_which_turn(shop, casrewind, words, name):  # noqa: F811 - the fixture
    shown = casrewind("back", "-n", *words, code=0).out.splitlines()
    assert shown[0].startswith('back to before "') and f" ({name}, " in shown[0] and shown[0].endswith("):"), shown
    assert typed(shop[0], f"/casrewind back {' '.join(words)} -n").splitlines()[0].startswith(shown[0].partition(",")[0])


@pytest.mark.parametrize("scope", ["user", "project"])
def test_back_alone_is_the_command_where_an_installation_wrote_it(shop, root, casrewind, home, scope):  # noqa: F811 - the fixture
    first, pictures = shop
    told = {"session_id": first.session, "transcript_path": str(first.path)}

    def prompt(words):
        return first.client.call(first.client.payload("UserPromptSubmit.prompt", prompt=words, **told), **first.variables)

    before = picture(root)
    place = (home if scope == "user" else root) / ".claude" / "commands" / "back.md"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("a command of one's own")
    assert prompt("/back")[1] == b"" and picture(root).items() >= before.items(), "it is a prompt"
    place.unlink()
    assert prompt("/back 2")[1] == b"" and prompt("/backup")[1] == b""
    casrewind("install", "claude", "--short", "--scope", scope, code=0)
    assert place.exists() and prompt("/backward")[1] == prompt("/back\nto the roots")[1] == b""
    plan = typed(first, "/back @4 --code")
    assert 'back to before "round to cents" (@4, ' in plan and line_of(plan) == "/casrewind yes" and picture(root).items() >= before.items()
    assert "restored to before" in typed(first, "/back yes") and (root / "till.py").read_bytes() == b"0"
