"""The pages that users read are in plain English: short sentences, and none of the phrases that had to be read twice."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent.parent
PAGES = ["README.md", "SECURITY.md", *(f"docs/{name}.md" for name in (
    "README", "tutorial", "limits", "configuration", "faq", "troubleshooting", "comparison", "containers", "python", "api", "wheels",
    "guides/claude-code", "guides/factory-droid", "guides/any-other-agent", "guides/pi",
))]  # fmt: skip
LONGEST = 25
PHRASES = r"""\b(nobody|somebody|whoever|whose|no more|any more|is none|have need of|tells|speaks for|all the same|by then|meanwhile|as ever|cellar|errand)\b"""


def sentences(text):
    """The sentences of a page: of its paragraphs, its points and the cells of its tables."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"^\|(.*)\|$", lambda row: f"\n{row[1].replace(' | ', chr(10) * 2)}\n", text, flags=re.MULTILINE)
    for part in re.split(r"\n\s*\n|\n(?=[-*#>] )", text):
        yield from re.split(r"(?<=[.;:!?])\**\s+", " ".join(part.split()))


@pytest.mark.turns(1)  # a page that waits for its turn is red for somebody else
@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short_and_plain(page):
    found = [*sentences((TOP / page).read_text())]
    assert [sentence for sentence in found if len(sentence.split()) > LONGEST] == []
    assert [sentence for sentence in found if re.search(PHRASES, sentence)] == []


def test_a_long_sentence_would_be_noticed():
    assert [len(each.split()) for each in sentences("One two. Three\nfour five.\n\n| a b | c |\n")][:2] == [2, 3]
    assert re.search(PHRASES, "for whoever waits")
