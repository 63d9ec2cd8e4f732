"""The page of --html in a real browser: hostile text does nothing, no request leaves, keys, filters, links and copying work."""

import os
import re
import threading

import pytest

from support import browser as browsers
from support.agent_turns import AgentTurns
from support.command import Command
from support.trees import plant
from casrewind.settings import default_settings
from casrewind.workspace import Workspace

EVIL = [
    '"onmouseover="pwned()" x="', "'onfocus='pwned()' autofocus x='", "<img src=x onerror=pwned()>", "</script><script>pwned()</script>", "</style><script>pwned()</script>",
    "<svg onload=pwned()>", "javascript:pwned()", "{{ 7 * 7 }}{% raw %}", "--><script>pwned()</script><!--", "<iframe srcdoc='<script>parent.pwned()</script>'>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>", "<link rel=stylesheet href=http://127.0.0.1:9/a.css>", "\u202egpj.exe", "zero\u200bwidth\u2066",
    "&lt;script&gt;", "<base href=http://127.0.0.1:9/>", "]]><x:script xmlns:x='http://www.w3.org/1999/xhtml'>pwned()</x:script>", "`${pwned()}`",
]  # fmt: skip
PWNED = "typeof window.pwned === 'undefined' && document.querySelectorAll('script, iframe, img, svg, base, object, embed, form').length === 1 && !document.querySelector('[onmouseover], [onfocus], [onerror], [onload]')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if browsers.program() is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("chromium is not installed")
    found = browsers.Browser(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """made(name, story): the page of a review of a project in which the story happened; its URL."""

    def make(name, story, *more):
        place = tmp_path_factory.mktemp("page")
        root, home = place / name, place / "home"
        root.mkdir(), home.mkdir()
        run = Command(root, home)
        settings = default_settings()._replace(data=str(home / "data"), home=str(home))
        plant(root, {"start.py": b"def total():\n    return 1\n"})
        with Workspace(str(root), settings, create=True) as workspace:
            workspace.save()
            workspace.mark_reviewed()
            story(workspace, root)
        said = run("review", "--html", str(place / "page.html"), "--yes", *more, code=0)
        return (place / "page.html").as_uri(), said

    return make


def evil_story(workspace, root):
    """Markup in every field: prompts, sessions, names, contents, labels, moves."""
    for number, text in enumerate(EVIL):
        told = AgentTurns(workspace, root, f"s{number}{text}")
        told.prompt("a", f"{text}\n{text}")
        name = text.replace("/", "\u2215")
        plant(root, {f"{name}.py": f"# {text}\nx = '{text}'\n".encode(), f"{name}/{name}.html": text.encode() * 20})
        told.stop("a")
        plant(root, {f"mine {name}": text.encode()})
        workspace.save(f"label {text}")
    os.rename(root / "start.py", root / "<b>moved.py")
    os.symlink("<img src=x onerror=pwned()>", root / "link")
    plant(root, {"long": b"<script>pwned()</script>" * 500_000})
    workspace.restore("@1", [b"start.py"])


@pytest.fixture(scope="module")
def evil(made):
    return made("</title><script>pwned()</script>".replace("/", "\u2215"), evil_story)[0]


@pytest.mark.turns(3)
@pytest.mark.parametrize("how", [{}, {"width": 390, "height": 844, "scheme": "dark"}, {"has_scripts": False}])
def test_hostile_text_does_nothing_and_no_request_leaves(browser, evil, how):
    page = browser.page(**how)
    page.open(evil)
    assert page.run(PWNED) is True
    for _ in range(40 if how.get("has_scripts", True) else 0):
        page.press("j")
        page.press("s")
    assert page.run(PWNED) is True and page.run("document.documentElement.scrollWidth <= window.innerWidth") is True
    assert page.requests == [evil] and page.complaints == []
    assert not set(page.run("document.documentElement.textContent")) & set("\u202e\u200b\u2066")
    assert "\\u202egpj.exe" in page.run("document.body.textContent")


def shop_story(workspace, root):
    first, second = AgentTurns(workspace, root, "first"), AgentTurns(workspace, root, "second")
    first.prompt("a", "round to cents\nand explain it")
    plant(root, {"start.py": b"def total():\n    # cents\n    return round(1, 2)\n", "lib/cents.py": b"CENTS = 100\n"})
    first.stop("a")
    plant(root, {"notes.md": b"# mine\n"})
    second.prompt("b", "give change")
    plant(root, {"lib/change.py": b"def change(paid, due):\n    return paid - due\n", "start.py": b"def total():\n    # cents\n    return round(1, 3)\n"})
    second.stop("b")


@pytest.fixture(scope="module")
def shop(made):
    return made("shop", shop_story)[0]


def rows(page):
    return page.run("[...document.querySelectorAll('nav li:not(.off) a')].map((a) => a.hash.slice(1))")


def chosen(page):
    return page.run("[...document.querySelectorAll('section.chosen')].map((s) => s.id).join()")


def shown_files(page):
    return page.run("[...document.querySelectorAll('section.chosen .file:not(.off)')].map((f) => f.dataset.path)")


def test_keys_filters_links_and_copying(browser, shop):
    page = browser.page()
    page.open(shop)
    assert rows(page) == ["r0", "t1", "r2", "t2"] and chosen(page) == "r0"
    page.press("j", "j", "j", "j", "k")
    assert chosen(page) == "r2" and page.run("location.hash") == "#r2"
    page.click("nav li[data-row=t2] a")
    page.wait("document.querySelector('section.chosen').id === 't2'")
    page.press("/")
    assert page.run("document.activeElement.id") == "words"
    page.press(*"chang")
    assert rows(page) == ["r0", "t1"] and chosen(page) == "r0" and shown_files(page) == ["lib/change.py"]
    page.press("Escape")
    assert rows(page) == ["r0", "t1", "r2", "t2"] and page.run("document.activeElement.id") != "words"
    pick = "((id, at) => { const s = document.getElementById(id); s.selectedIndex = at; s.dispatchEvent(new Event('change')); return s.value })"
    assert page.run(f"{pick}('session', 1)") == "claude seco" and rows(page) == ["t1"] and chosen(page) == "t1"
    page.run(f"{pick}('session', 0)")
    assert page.run(f"{pick}('maker', 2)") == "you" and rows(page) == ["r2"]
    page.run(f"{pick}('maker', 0)")
    page.click("nav li[data-row=t2] a")
    page.wait("document.querySelector('section.chosen').id === 't2'")
    page.click("section.chosen button.copy")
    page.wait("document.querySelector('section.chosen button.copy').textContent.startsWith('copied')")
    assert re.fullmatch(r"casrewind revert c[0-9a-f]{14}", page.run("navigator.clipboard.readText()"))
    assert page.complaints == [] and page.requests == [shop]


def test_a_link_to_a_line_shows_it_in_either_form(browser, shop):
    page = browser.page()
    page.open(shop)
    line = page.run("[...document.querySelectorAll('#t2 td[id]')].find((td) => td.parentNode.textContent.includes('cents')).id")
    page.open("about:blank")
    page.open(f"{shop}#{line}")
    page.wait("document.querySelector('section.chosen')?.id === 't2'")
    assert chosen(page) == "t2" and page.run(f"document.querySelector('td:target').id === '{line}'")
    page.press("s")
    assert page.run("document.querySelectorAll('#t2 table.beside').length") == 2
    pairs = page.run("[...document.querySelectorAll('#t2 table.beside tr')].map((tr) => [...tr.cells].map((td) => td.textContent).join('|'))")
    assert any(re.search(r"2\|    return 1\|3\|[^|]*\|    return round\(1, 2\)", pair) or re.search(r"2\|    return 1\|2\|[^|]*\|    # cents", pair) for pair in pairs), pairs
    assert page.run(f"document.getElementById('{line}').isConnected")
    page.press("s")
    assert page.run("document.querySelectorAll('table.beside').length") == 0 and page.complaints == []


def test_without_scripts_all_of_it_is_there(browser, shop):
    page = browser.page(has_scripts=False)
    page.open(shop)
    seen = page.run("[...document.querySelectorAll('section, .file table')].every((place) => place.getBoundingClientRect().height > 0 || place.checkVisibility())")
    assert seen and page.run("[...document.querySelectorAll('.tools')].every((place) => !place.checkVisibility())")


def test_printed_it_has_every_row(browser, shop):
    page = browser.page()
    page.open(shop)
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.run("[...document.querySelectorAll('section')].every((place) => place.checkVisibility())")
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(browser, shop, scheme):
    """Contrast of 4.5 to 1, as WCAG asks."""
    page = browser.page(scheme=scheme)
    page.open(shop)
    page.press("j")
    low = page.run("""(() => {
        const light = (c) => { const [r, g, b] = c.match(/\\d+/g).map(Number).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b };
        const ground = (place) => { for (; place; place = place.parentElement) { const c = getComputedStyle(place).backgroundColor; if (!/, 0\\)$/.test(c)) return c } };
        return [...document.querySelectorAll('section.chosen *, nav *')].filter((p) => p.checkVisibility() && [...p.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((p) => {
            const [a, b] = [light(getComputedStyle(p).color), light(ground(p))].sort();
            return [p.tagName + '.' + p.className, (b + 0.05) / (a + 0.05)] }).filter(([, ratio]) => ratio < 4.5) })()""")
    assert low == []
