"""The page of --html: what is in it, what is not, and what it is asked about. tests/cli/test_page_in_browser.py opens it."""

import html
import os
import re
import subprocess
import sys

import pytest

from casrewind.cli.show import page as pages
from casrewind.cli.show import syntax
from casrewind.model.likely_secrets import has_secret, is_secret_name
from support.agent_turns import AgentTurns
from support.trees import plant

TAG = re.compile(r"<[^>]*>")


@pytest.fixture
def shop(casrewind, workspace, root):
    """Two turns of two sessions and an edit by a person, since the mark."""
    plant(root, {"src/till.py": b"def total():\n    return 1\n", "old.txt": b"o\n" * 30})
    casrewind("save", code=0)
    casrewind("review", "--done", code=0)
    told = AgentTurns(workspace, root)
    told.prompt("a", "round to cents\nand explain")
    plant(root, {"src/till.py": b"def total():\n    return round(1, 2)  # cents\n"})
    told.stop("a")
    plant(root, {"notes.md": b"# mine\n"})
    told.other = AgentTurns(workspace, root, "s2")
    told.other.prompt("b", "clean up")
    (root / "old.txt").rename(root / "new.txt")
    plant(root, {"logo.bin": b"\0" * 3000})
    told.other.stop("b")
    return told


@pytest.fixture
def made(casrewind, tmp_path):
    """made("review"): the text of the page that a command writes."""

    def make(*words, code=0):
        place = tmp_path / "page.html"
        casrewind(*words, "--html", str(place), code=code)
        return place.read_text("utf-8")

    return make


def words_of(text):
    """What a person reads of a page, in one line."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(TAG.sub(" ", body)).split())


def test_a_review_has_the_difference_with_the_makers_of_its_lines_and_a_section_for_each_row(shop, made):
    text = made("review")
    found = words_of(text)
    assert [name for name in re.findall(r'<section id="(\w+)"', text)] == ["r0", "t1", "r2", "t2"]
    for words in ("All changes", "@1 clean up", "edited outside of a turn", "@2 round to cents", "and explain", "old.txt → new.txt", "binary or too large: absent -> 2.9 KiB"):
        assert words in found, words
    assert "+1 -1" in found and re.search(r'<tr class="a">.*?id="r0f\d+n2".*?<td class="m">@2</td>.*?round', text)
    assert re.search(r'id="r0f\d+n1".*?<td class="m">you</td><td class="x">.*?# mine', text)
    assert '<i class="keyword">return</i>' in text and re.search(r"copy: casrewind revert c[0-9a-f]{14}<", text)


def test_a_turn_and_the_turns_of_a_path(shop, made):
    found = words_of(made("show", "@2"))
    assert "turn @2" in found and "round( 1 , 2 )" in found and "notes.md" not in found and "All changes" not in found
    found = words_of(made("log", "src"))
    assert "what changed src" in found and "@2 round to cents" in found and "@1" not in found
    assert "@1 clean up" in words_of(made("log"))
    assert "@2" not in words_of(made("log", "-n", "1"))


def test_prompts_can_be_left_out(shop, made):
    shop.prompt("c", "a secret plan")
    shop.stop("c")
    text = made("review", "--no-prompts")
    assert "prompt left out" in text and all(words not in text for words in ("round to cents", "explain", "clean up", "secret plan"))


def test_a_page_asks_for_nothing_and_allows_one_script(shop, made):
    text = made("review")
    assert re.findall(r'(?:src|action|data|srcset|poster)="[^"]*"', text.replace("data-", "")) == []
    assert {link for link in re.findall(r'href="([^"]*)"', text) if not link.startswith("#")} == {"data:,"}
    assert text.startswith(pages.FIRST_LINE) and len(re.findall("<script", text)) == len(re.findall("<style", text)) == 1
    assert " on" not in "".join(re.findall(r"<[a-z]+[^>]*>", text)).replace(" one", "") and 'style="' not in text
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy


def test_markup_is_text(shop, made, root):
    shop.prompt("c", '</pre><script>1</script>" x="')
    plant(root, {'<i "x=': b"</td><script>2</script>\n"})
    shop.stop("c")
    text = made("review")
    assert text.count("<script") == 1 and "<i \"" not in text and 'data-path="&lt;i &#34;x="' in text and "&lt;/td&gt;" in text


def test_what_turns_the_direction_of_writing_or_is_not_seen_is_written_out(shop, made, root, workspace):
    shop.prompt("c", "turn \u202e it\u200b round")
    plant(root, {"\u202egpj.exe": b"x \xe2\x80\xaey\r\n\x1b[31m \xff", "zero\u200bwidth": b"1\n"})
    shop.stop("c")
    text = made("review")
    assert all(words in text for words in ("turn \\u202e it\\u200b round", "\\u202egpj.exe", "zero\\u200bwidth", "x \\u202ey\\r", "\\x1b[31m \\xff"))
    assert not set(text) & set("\u202e\u200b\x1b\r\u2066\u200f")


def test_what_looks_like_a_secret_is_named_and_asked_about(shop, casrewind, root, tmp_path, terminal):
    plant(root, {".env": b"KEY=1\n", "src/config.py": b"key = 'AKIAABCDEFGHIJKLMNOP'\n"})
    place = tmp_path / "page.html"
    refused = casrewind("review", "--html", str(place), code=64)
    assert "(.env and src/config.py)" in refused.err and "--yes" in refused.err and not place.exists()
    session = terminal("review", "--html", str(place))
    session.read_until(b"this looks like a secret: .env and src/config.py")
    session.read_until(b"[y/N]")
    session.type("n\n")
    assert session.end()[0] == 0 and not place.exists()
    said = casrewind("review", "--html", str(place), "--yes", code=0)
    assert "looks like a secret" in said.err and "KEY=1" in place.read_text()


def test_a_file_that_is_no_page_is_not_replaced(shop, casrewind, root, tmp_path):
    assert "is not a page of casrewind" in casrewind("show", "--html", str(root / "notes.md"), code=14).err
    assert (root / "notes.md").read_bytes() == b"# mine\n"
    for _ in range(2):
        assert casrewind("show", "--html", str(tmp_path / "a.html"), code=0).out.startswith(f"wrote {tmp_path}/a.html (")
    assert os.stat(tmp_path / "a.html").st_mode & 0o777 == 0o600
    assert casrewind("show", "--html", str(tmp_path / "no" / "a.html"), code=1).err.startswith("casrewind: cannot write ")
    os.symlink(root / "notes.md", tmp_path / "link.html")
    assert casrewind("show", "--html", str(tmp_path / "link.html")).code and (root / "notes.md").read_bytes() == b"# mine\n"


@pytest.mark.parametrize("words, said", [
    (("show", "last", "--html", "x"), "shows a turn"), (("review", "--json", "--html", "x"), "exclude"), (("review", "--done", "--html", "x"), "exclude"), (("log", "-S", "a", "--html", "x"), "only -n and PATH"),
    (("review", "-p", "--html", "x"), "exclude"),
])  # fmt: skip
def test_what_is_no_page_says_why(shop, casrewind, words, said):
    assert said in casrewind(*words, code=64).err


def test_what_is_too_large_is_left_out_and_named(shop, casrewind, root, tmp_path, monkeypatch):
    shop.prompt("c", "much")
    plant(root, {"a-line": b"x" * 10_000_000, "big.py": b"a = 1\n" * 30_000, **{f"many/{number}": b"1\n" for number in range(40)}})
    shop.stop("c")
    monkeypatch.setattr(pages, "MOST_BYTES", 100_000)
    said = casrewind("show", "--html", str(tmp_path / "page.html"), code=0)
    text = (tmp_path / "page.html").read_text()
    assert "left out, because it is too large: big.py of @1" in said.err and "big.py of @1" in text and "+30000" in text
    assert "x" * 2000 + " … 10,000,000 bytes in this line" in text and len(text) < 200_000
    monkeypatch.setattr(pages, "MOST_BYTES", 10_000)
    assert re.search(r"and \d\d files of @1$", casrewind("show", "--html", str(tmp_path / "page.html"), code=0).err.strip())


def test_without_the_template_engine_it_says_what_to_install(shop, root, home, process, tmp_path):
    code = "import sys; sys.modules['jinja2'] = None; from casrewind.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "-C", str(root), "review", "--html", str(tmp_path / "p.html")]
    done = subprocess.run(words, env=process.environment, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == "casrewind: --html needs casrewind[page]; uv tool install 'casrewind[page]'\n", done


def test_a_lexer_that_takes_long_or_fails_leaves_a_text_plain(monkeypatch):
    class Lexer:
        def __init__(self, how):
            self.get_tokens = how

    assert syntax.syntax_spans(b"a.py", ["def f(): pass"])[0][0] == (0, 3, "keyword")
    assert syntax.syntax_spans(b"a.py", ["x" * syntax.MOST_COLOURED, "1"]) == {} == syntax.syntax_spans(b"a.unknown-language", ["def"])
    monkeypatch.setattr(syntax, "_find_lexer", lambda _: Lexer(lambda _: re.match(r"(a|aa)+$", "a" * 60 + "b")))
    assert syntax.syntax_spans(b"a.py", ["def"]) == {}
    monkeypatch.setattr(syntax, "_find_lexer", lambda _: Lexer(lambda _: 1 / 0))
    assert syntax.syntax_spans(b"a.py", ["def"]) == {}


@pytest.mark.parametrize("name", [".env", "a/.env.production", "prod.env", "id_rsa", ".ssh/id_ed25519", "server.key", "a.PEM", ".npmrc", "credentials.json", "secrets.yaml", "x.tfvars"])
def test_names_of_secrets(name):
    assert is_secret_name(name.encode())


@pytest.mark.parametrize("name", [".env.example", "id_rsa.pub", "environment.py", "keys.py", "secretary.md", ".envrc-notes", "monkey.txt", "certificate.pem.sample"])
def test_names_that_are_none(name):
    assert not is_secret_name(name.encode())


@pytest.mark.parametrize("text, expected", [
    ("-----BEGIN OPENSSH PRIVATE KEY-----", True), ("aws = AKIAABCDEFGHIJKLMNOP", True), ("postgres://shop:hunter22@db/shop", True), ("ghp_" + "a" * 36, True),
    ("https://example.org/a:b", False), ("task-list-of-things-that-are-long-enough-to-be-one", False), ("-----BEGIN CERTIFICATE-----", False),
])  # fmt: skip
def test_texts_of_secrets(text, expected):
    assert has_secret(text) == expected
