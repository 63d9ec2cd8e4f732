"""casrewind config: what counts, and where it is from."""

import json
import os
import tomllib

import pytest

from casrewind import config as config_module
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
    "[retention]\nmax_size = \"many\"\n": "is not a size",
    "[retention]\nmax_size = 1e300\n": "max_size",
    "[retention]\nmax_count = 0\n": "not a number of 1 or more",
    "[retention]\nmax_count = [1]\n": "max_count",
    "[retention]\nthin = \"maybe\"\n": "neither true nor false",
    "[retention]\nmaxage = \"3d\"\n": "did you mean 'max_age'",
    "[retenton]\n": "did you mean 'retention'",
    "retention = 3\n": "is a section",
    "[hooks]\ntier = \"bold\"\n": "is not one of",
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


USERS = """# mine
[retention]   # how long
# a comment of its own
max_age = "30d"   # a month
  max_count='7'

[capture]
# transcripts = true
"""


def test_a_setting_is_changed_in_its_line_and_nothing_else(config, home):
    command, file = config(USERS), home / CONFIG_FILE
    found = command("config", "set", "retention.max_age", "90d", code=0)
    assert found.out == f"retention.max_age: 30d -> 90d\n  in {file}\n" and found.err == ""
    assert file.read_text() == USERS.replace('"30d"', '"90d"')
    command("config", "set", "retention.max_count", "9", code=0)
    assert file.read_text() == USERS.replace('"30d"', '"90d"').replace("'7'", "9")
    assert sources(command.json("config"))["retention.max_count"] == (9, str(file))


def test_a_setting_that_is_not_in_the_file_is_added_to_its_section(config, home):
    command, file = config(USERS), home / CONFIG_FILE
    assert "retention.max_size: 5GiB (default) -> 2GiB\n" in command("config", "set", "retention.max_size", "2GiB", code=0).out
    command("config", "set", "capture.transcripts", "no", code=0)
    command("config", "set", "hooks.budget", "3 s", code=0)
    wanted = USERS.replace("max_count='7'\n", "max_count='7'\nmax_size = \"2GiB\"\n").replace("[capture]\n", "[capture]\ntranscripts = false\n")
    assert file.read_text() == wanted + '\n[hooks]\nbudget = "3 s"\n'


def test_a_file_is_made_for_its_owner_alone(config, home):
    config()("config", "set", "hooks.tier", "minimal", code=0)
    assert (home / CONFIG_FILE).read_text() == '[hooks]\ntier = "minimal"\n' and (home / CONFIG_FILE).stat().st_mode & 0o777 == 0o600


def test_the_value_default_takes_a_setting_out_and_leaves_a_comment(config, home):
    command, file = config(USERS), home / CONFIG_FILE
    assert "retention.max_age: 30d -> 30d (default)\n" in command("config", "set", "retention.max_age", "default", code=0).out
    command("config", "set", "retention.max_count", "default", code=0)
    assert file.read_text() == USERS.replace("max_age", "# max_age").replace("  max_count='7'\n", "")
    assert {source for _, source in sources(command.json("config")).values()} == {"default"}
    again = command("config", "set", "retention.max_count", "default", code=0)
    assert again.out == "" and "is 20000 (default) there already: nothing was changed" in again.err


@pytest.mark.parametrize("name", config_module.variables())
def test_every_setting_can_be_set_and_taken_out(config, home, name):
    given = {"remote.keep": "90d", "hooks.tier": "minimal", "remote.push": "turns", "retention.max_count": "3", "hooks.warn_removed": "0"}
    kind = next(setting.kind for setting in config_module.explain_settings("", "", {}) if setting.name == name)
    value = given.get(name) or {"age": "1d12h", "size": "300 MB", "flag": "yes"}[kind]
    command = config("# a comment\r\n")
    before = sources(command.json("config"))
    found = sources(command.json("config", "set", name, value))
    assert found[name][1] == str(home / CONFIG_FILE) and {**found, name: before[name]} == before
    assert sources(command.json("config", "set", name, "default")) == before
    assert (home / CONFIG_FILE).read_bytes().startswith(b"# a comment\r\n") and b"\n" not in (home / CONFIG_FILE).read_bytes().replace(b"\r\n", b"")


UNTOUCHED = {
    'retention = {max_age = "3d"}\n': "edit the file: max_age = \"9d\" below [retention]",
    'retention.max_age = "3d"\n': "edit the file",
    '[retention]\nmax_age = """\n3d"""\n': "edit the file",
    'x = """\n[retention]\nmax_age = 3\n"""\n': "unknown section 'x'",
}


@pytest.mark.parametrize("text", UNTOUCHED, ids=range(len(UNTOUCHED)))
def test_a_file_in_which_the_setting_has_no_line_of_its_own_is_left_alone(config, home, text):
    said = config(text)("config", "set", "retention.max_age", "9d", code=64).err
    assert UNTOUCHED[text] in said and (home / CONFIG_FILE).read_text() == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "max_age", "3d"], "no setting 'max_age'; did you mean retention.max_age?"),
        (["set", "max-age", "3d"], "no setting 'max-age'; did you mean retention.max_age?"), (["set", "maxage", "3d"], "did you mean retention.max_age?"),
        (["set", "retention.maxage", "3d"], "did you mean retention.max_age?"), (["set", "xyzzy", "default"], "casrewind config lists them"),
        (["set", "retention.max_age", "soon"], "retention.max_age: 'soon'"), (["set", "hooks.tier", "bold"], "minimal, balanced"),
        (["set", "retention.max_age"], "missing VALUE"), (["set"], "missing NAME"), (["retention.max_age"], "config set NAME VALUE"),
        (["--project"], "--project goes with set"), (["get", "retention.max_age"], "config set NAME VALUE"),
        (["set", "--project", "hooks.tier", "minimal"], "not a setting of a project"),
        (["set", "--project", "hooks.teir", "minimal"], "did you mean hooks.tier?"),
        (["set", "retention.max_age", "3d", "4d"], "unexpected '4d'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_set_is_said_and_no_file_is_made(config, root, home, words, said):
    found = config()("config", *words, code=64)
    assert said in found.err and found.err.count("\n") == 1 and found.out == ""
    assert not (home / CONFIG_FILE).exists() and not (root / ".casrewind.toml").exists()


def test_a_variable_that_counts_more_is_named(config):
    found = config("", CASREWIND_BUDGET="3s")("config", "set", "hooks.budget", "9s", code=0)
    assert found.out.startswith("hooks.budget: 20s (default) -> 9s\n")
    assert "CASREWIND_BUDGET is set and overrides the file: hooks.budget is 3s here" in found.err


def test_a_link_to_the_file_stays_one(config, home):
    plant(home, {"dotfiles/casrewind.toml": b"[hooks]\n"})
    (home / CONFIG_FILE).parent.mkdir(parents=True)
    (home / CONFIG_FILE).symlink_to(home / "dotfiles" / "casrewind.toml")
    config()("config", "set", "hooks.budget", "9s", code=0)
    assert (home / CONFIG_FILE).is_symlink() and (home / "dotfiles" / "casrewind.toml").read_text() == '[hooks]\nbudget = "9s"\n'


def test_the_projects_file_gets_its_only_setting(config, root, home):
    plant(root, {".casrewind.toml": b'ignore = ["*.iso"]  # large\n'})
    command = config()
    found = command("config", "set", "--project", "capture.max_file_size", "10MB", code=0)
    assert found.out == f"capture.max_file_size: not set -> 10000000\n  in {root / '.casrewind.toml'}\n" and found.err == ""
    assert (root / ".casrewind.toml").read_text() == 'ignore = ["*.iso"]  # large\n\n[capture]\nmax_file_size = "10MB"\n'
    assert "your own limit, 1GiB, counts" in command("config", "set", "--project", "capture.max_file_size", "2GiB", code=0).err
    command("config", "set", "--project", "capture.max_file_size", "default", code=0)
    assert (root / ".casrewind.toml").read_text() == 'ignore = ["*.iso"]  # large\n\n[capture]\n'
    assert not (home / CONFIG_FILE).exists()
    (root / ".casrewind.toml").unlink()
    plant(home, {"secret": b"x"})
    (root / ".casrewind.toml").symlink_to(home / "secret")
    assert "it is a link; nothing was changed" in command("config", "set", "--project", "capture.max_file_size", "1MB", code=64).err
    assert (home / "secret").read_bytes() == b"x"
