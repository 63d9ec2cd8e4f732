"""The picker cuts a conversation in its own session, when that is agreed to and no client runs."""

from pathlib import Path

import pytest

import casrewind as api
from casrewind.agents.claude import CLIENT as claude
from casrewind.history import conversation
from support.picker_screen import run_picker
from support.picture import picture


@pytest.mark.long
def test_a_conversation_is_cut_in_its_own_session(ended, root, home):
    client, prompts, _ = ended
    whole, files = client.transcript.read_bytes(), picture(root)

    async def story(stage):
        await stage.shows(prompts[1].text[:20])
        await stage.press("slash")
        await stage.type("alpha")
        await stage.shows("with 'alpha'")
        await stage.press("enter", "i")
        await stage.shows("Cut the conversation in its own session", "no file changed", "kept beside")
        await stage.press("n")
        await stage.shows("nothing was changed")
        assert client.transcript.read_bytes() == whole
        await stage.press("i")
        await stage.shows("kept beside")
        await stage.press("y")
        await stage.shows("Done", "rewritten: ", "as it was: ")

    app = run_picker(root, home, story)
    assert picture(root) == files
    now = [prompt.text for prompt in claude.prompts(client.transcript.read_bytes())]
    assert now == [prompt.text for prompt in prompts][: len(now)] and len(now) < len(prompts)
    backup = next(line for line in app.state.outcome if "as it was: " in line).partition("as it was: ")[2]
    assert Path(backup).read_bytes() == whole


def test_a_prompt_is_whole_in_the_transcript(told, root, home):
    """A checkpoint has the start of a long prompt; what is shown comes from the conversation, of each prompt its own text."""
    _, prompts, _ = told
    settings = api.default_settings()._replace(data=str(home / "data"), home=str(home))
    with api.open(root, settings) as workspace:
        points = [point for point, _ in reversed(workspace.checkpoints()) if point.trigger == "prompt"]
        found = [conversation.full_prompt(workspace._context, point) for point in points]
        other = conversation.full_prompt(workspace._context, points[0]._replace(session="unknown"))
    assert found == [prompt.text for prompt in prompts] and other == ""
