"""A real session of two hundred turns, typed in Claude Code, and what a person sees of it: the list, and the page of --html in a browser."""

import time

import pytest

from support import browser as browsers
from support.claude_model import bash, call
from support.trees import plant

pytestmark = [pytest.mark.xdist_group("client-long-session"), pytest.mark.long]
TURNS, FILES = 200, 20


def lines_of(number):
    """Ten lines that no other turn writes."""
    return [f"    step_{number}_{line} = {number * line}  # of turn {number}" for line in range(10)]


@pytest.fixture(scope="module")
def worked(start):
    client = start()
    plant(client.project, {f"src/part{number}.py": b"def part():\n" for number in range(FILES)})
    client.casrewind("install", "claude", code=0)
    client.casrewind("save", code=0)
    client.casrewind("review", "--done", code=0)
    script = {}
    for number in range(1, TURNS + 1):
        path = client.project / f"src/part{number % FILES}.py"
        step = bash(f"cat >> {path} <<'END'\n" + "\n".join(lines_of(number)) + "\nEND")
        if number % 10 == 0:  # a file of its own, by the client's own tool
            step = call("Write", file_path=str(client.project / f"docs/note{number}.md"), content="\n".join(lines_of(number)) + "\n")
        script[f"turn {number:03} please"] = [[step], ["Done."]]
    client.model.script = script
    terminal = client.terminal()
    for prompt in script:
        terminal.say(prompt)
    return client


def test_every_turn_is_a_row_with_its_own_change(worked):
    turns = worked.casrewind.json("list", "-n", str(TURNS + 10))["turns"]
    assert [turn["prompt"] for turn in turns] == [f"turn {number:03} please" for number in range(TURNS, 0, -1)]
    assert {sum(turn["changes"].values()) for turn in turns} == {1} and not any(turn["mixed"] or turn["cut_short"] for turn in turns)


def test_the_page_of_it_is_small_and_opens_fast(worked, tmp_path, tmp_path_factory):
    if browsers.program() is None:
        pytest.skip("chromium is not installed")
    page_file = tmp_path / "page.html"
    began = time.monotonic()
    worked.casrewind("review", "--html", str(page_file), "--yes", code=0)
    made = time.monotonic() - began
    browser = browsers.Browser(tmp_path_factory.mktemp("chromium"))
    try:
        for how, name in (({}, "wide"), ({"width": 390, "height": 844, "scheme": "dark"}, "narrow")):
            page = browser.page(**how)
            page.open(page_file.as_uri())
            opened = page.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
            print(f"{TURNS} turns: written in {made:.1f} s, {page_file.stat().st_size >> 10} KiB, loaded in {opened:.0f} ms ({name})")
            assert page.run("document.querySelectorAll('nav li[data-row^=t]').length") == TURNS
            assert page.run("document.querySelectorAll('section[id^=t] .file').length") == TURNS
            added = page.run("[...document.querySelectorAll('section[id^=t] td')].filter((td) => td.textContent.includes('  # of turn ')).length")
            assert added >= TURNS * 10
            assert page.requests == [page_file.as_uri()] and page.complaints == []
            page.press(*"jjj")
            page.picture(tmp_path / f"{name}.png")
            assert page.run("document.documentElement.scrollWidth <= window.innerWidth") is True
    finally:
        browser.close()
