"""casrewind config: what counts, and where it is from."""

import json
import os
import tomllib

import pytest

from support.command import CONFIG_FILE
from support.command_in_process import InProcess
from support.trees import plant


@pytest.fixture
def config(root, home):
    """config(text): the command in a project, with that in the user's configuration file."""

    def work(text=None, **variables):
        if text is not None:
            plant(home, {CONFIG_FILE: text.encode()})
        return InProcess(root, home, **variables)

    return work


def sources(found):
    return {setting["name"]: (setting["value"], setting["source"]) for setting in found["settings"]}


def test_all_as_it_comes(config, home):
    command = config()
    found = command.json("config")
    assert found["file"] == str(home / CONFIG_FILE)
    assert not found["exists"]
    assert sources(found)["retention.max_age"] == (30 * 86400.0, "default")
    assert sources(found)["retention.max_size"] == (5 << 30, "default")
    assert sources(found)["retention.thin"] == (True, "default")
    assert {source for _, source in sources(found).values()} == {"default"}
    lines = command("config", code=0).out.splitlines()
    assert lines[0].endswith("(does not exist: default settings)")
    assert lines[1].split() == ["retention.max_age", "30d", "default"]
    assert lines[3].split() == ["retention.max_size", "5GiB", "default"]
    assert not os.path.exists(home / "data")  # nothing is made for it


def test_a_variable_counts_more_than_the_file_and_the_file_more_than_the_default(config, home):
    command = config('[retention]\nmax_age = "12h"\nmax_count = 7\n', CASREWIND_MAX_COUNT="9")
    found = sources(command.json("config"))
    assert found["retention.max_age"] == (43200.0, str(home / CONFIG_FILE))
    assert found["retention.max_count"] == (9, "CASREWIND_MAX_COUNT")
    assert found["retention.max_size"][1] == "default"


def test_a_project_lowers_the_largest_file_and_adds_rules_and_nothing_else(config, root):
    plant(root, {".casrewind.toml": b'ignore = ["*.iso"]\n[capture]\nmax_file_size = "10MB"\n'})
    command = config()
    found = command.json("config")
    assert sources(found)["capture.max_file_size"] == (10_000_000, str(root / ".casrewind.toml"))
    assert found["project"] == {"root": str(root), "file": str(root / ".casrewind.toml"), "ignore": ["*.iso"]}
    assert "*.iso  the project's own file" in command("config", code=0).out
    plant(root, {".casrewind.toml": b'[capture]\nmax_file_size = "10GiB"\n'})
    assert sources(command.json("config"))["capture.max_file_size"] == (1 << 30, "default")


def test_outside_of_any_project(config, home):
    command = config()
    found = json.loads(command("-C", str(home), "config", "--json", code=0).out)  # the home directory is refused as a root
    assert found["project"] is None


def test_what_is_printed_can_be_written_into_the_file(config, home):
    command = config()
    lines = [line.split()[:2] for line in command("config", code=0).out.splitlines()[1:]]
    text, section = "", ""
    for name, value in lines:
        if name == "hooks.tier":
            continue  # as installed
        if name.partition(".")[0] != section:
            section = name.partition(".")[0]
            text += f"[{section}]\n"
        text += f"{name.partition('.')[2]} = {value if value in ('true', 'false') else json.dumps(value)}\n"
    tomllib.loads(text)
    again = sources(config(text).json("config"))
    assert {name: value for name, (value, _) in again.items()} == {
        name: value for name, (value, _) in sources(command.json("config")).items()
    }
    assert again["retention.max_age"][1] == str(home / CONFIG_FILE)


BAD = {
    "[retention]\nmax_age = -1\n": "max_age",
    "[retention]\nmax_size = \"-5GiB\"\n": "-5GiB",
    "[retention]\nmax_size = \"many\"\n": "is no size",
    "[retention]\nmax_size = 1e300\n": "max_size",
    "[retention]\nmax_count = 0\n": "no number of 1 or more",
    "[retention]\nmax_count = [1]\n": "max_count",
    "[retention]\nthin = \"maybe\"\n": "neither true nor false",
    "[retention]\nmaxage = \"3d\"\n": "did you mean 'max_age'",
    "[retenton]\n": "did you mean 'retention'",
    "retention = 3\n": "is a section",
    "[hooks]\ntier = \"bold\"\n": "is none of",
    "[retention\n": "config.toml",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("words", [("config",), ("save",), ("gc",)], ids=" ".join)
def test_what_cannot_be_understood_is_said_in_one_line_and_nothing_is_done(config, root, home, text, words):
    plant(root, {"a": b"1"})
    config()("save", code=0)
    result = config(text)(*words, code=64)
    assert result.out == ""
    assert result.err.startswith("casrewind: ") and result.err.count("\n") == 1
    assert BAD[text] in result.err
    (home / CONFIG_FILE).unlink()
    assert len(config().json("list")["checkpoints"]) == 1


@pytest.mark.parametrize("size", ["-1", "", "5 apples", "1e9", "9" * 400, "5GiBs", "0x10", "-5GiB", "٣GiB"])
def test_a_bad_size_for_gc_is_refused_before_anything_is_done(config, root, size):
    plant(root, {"a": b"1"})
    command = config()
    command("save", code=0)
    result = command("gc", f"--max-size={size}", code=64)
    assert result.err.startswith("casrewind: --max-size") and result.err.count("\n") == 1
    assert len(result.err) < 300
