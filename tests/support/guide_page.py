"""The blocks of docs/guides/cloud-sandbox.md, as a reader copies them."""

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "cloud-sandbox.md"


def blocks(language):
    """The fenced blocks of a language, in the order of the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def block(language, where=""):
    """The one block of a language that begins with this comment, without it; without `where`, the only one."""
    (found,) = [text for text in blocks(language) if not where or text.startswith(f"# {where}\n")]
    return found.removeprefix(f"# {where}\n") if where else found


def word(pattern):
    """What the page has in one place in a sentence."""
    (found,) = re.findall(pattern, PAGE.read_text("utf-8"))
    return found


def container():
    """(names and values of the variables, where None = that of the shell; the command) of the page's `docker run`."""
    words = shlex.split(block("sh", "in your shell").replace("\\\n", " "))
    assert words[:2] == ["docker", "run"]
    image = words.index("IMAGE")
    assert words[2:image:2] == ["-e"] * ((image - 2) // 2)
    given = (word.partition("=") for word in words[3:image:2])
    return {name: value if equals else None for name, equals, value in given}, words[image + 1 :]


def last_line():
    """The last command in the container's shell."""
    return container()[1][-1].rpartition("; ")[2]
