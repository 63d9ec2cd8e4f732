"""Configuration: the user's file, variables, options, and the little that a project may say about itself."""

import os
import re
import sys
from pathlib import Path

import pytest

from casrewind import environment
from casrewind.agents import client_process
from support.command import CONFIG_FILE
from support.fake_client import Client
from support.scanner import settle
from support.trees import plant
from support.unchanged import unchanged


def configure(home, text):
    plant(home, {CONFIG_FILE: text.encode() if isinstance(text, str) else text})


def refused(casrewind, *words, **variables):
    found = casrewind("save", code=64, **variables)
    assert found.out == "" and found.err.startswith("casrewind: ") and found.err.count("\n") == 1
    for word in words:
        assert word in found.err, (word, found.err)


def test_a_whole_file_is_taken(casrewind, home, root):
    configure(
        home,
        '[retention]\nmax_age = "14d"\nmax_count = 100\nmax_size = "1.5 GiB"\nthin = false\n'
        '[capture]\nmax_file_size = "10 kB"\ndefault_excludes = false\ntranscripts = false\n'
        '[hooks]\ntier = "minimal"\nbudget = "500ms"\n',
    )
    plant(root, {"small": b"x" * 9999, "exact": b"x" * 10000, "large": b"x" * 10001, "node_modules/m": b"x"})
    found = casrewind.json("save")
    assert found["skipped"] == [{"path": "large", "reason": "too large"}]
    assert found["files"] == 3  # node_modules too: the built-in excludes are switched off
    assert casrewind.json("status")["budget_bytes"] == 3 << 29


def test_the_documented_defaults(casrewind, root):
    plant(root, {"node_modules/m": b"x", "f": b"x"})
    found = casrewind.json("save")
    assert found["files"] == 1 and found["skipped"] == [{"path": "node_modules", "reason": "built-in exclude"}]
    assert casrewind.json("status")["budget_bytes"] == 5 << 30


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[retention]\nmax_agee = '1d'\n", ["config.toml", "[retention]", "'max_agee'", "'max_age'"]),
        ("[retention]\nmaxcount = 1\n", ["'maxcount'", "'max_count'"]),
        ("[capture]\nmax_size = 1\n", ["[capture]", "'max_size'", "'max_file_size'"]),
        ("[hook]\ntier = 'minimal'\n", ["section", "'hook'", "'hooks'"]),
        ("max_age = '1d'\n", ["config.toml", "'max_age'"]),
        ("retention = 3\n", ["retention", "[retention]"]),
        ("[retention]\nmax_age = 'soon'\n", ["retention.max_age", "'soon'", "30d"]),
        ("[retention]\nmax_age = -1\n", ["retention.max_age", "'-1'"]),
        ("[retention]\nmax_count = 'many'\n", ["retention.max_count", "'many'"]),
        ("[retention]\nmax_count = '²'\n", ["retention.max_count"]),
        ("[retention]\nmax_size = '5 zillion'\n", ["retention.max_size", "5GiB"]),
        ("[retention]\nmax_size = '99999999999999 TiB'\n", ["retention.max_size", "disk"]),
        ("[retention]\nthin = 'maybe'\n", ["retention.thin", "'maybe'", "true"]),
        ("[retention]\nthin = 7\n", ["retention.thin"]),
        ("[hooks]\ntier = 'wild'\n", ["hooks.tier", "'wild'", "minimal", "balanced", "aggressive"]),
        ("[hooks]\nbudget = []\n", ["hooks.budget"]),
        ("[retention\n", ["config.toml", "line 1"]),
        (b"\xff\xfe", ["config.toml", "cannot be read"]),
    ],
)
def test_what_cannot_be_understood_is_64_and_named(casrewind, home, root, text, words):
    plant(root, {"f": b"x"})
    configure(home, text)
    with unchanged(root):
        refused(casrewind, *words)
    assert not (home / "data").exists()


def test_a_file_that_cannot_be_opened_is_64_and_named(casrewind, home):
    (home / CONFIG_FILE).mkdir(parents=True)
    refused(casrewind, "config.toml", "cannot be read")


def test_a_help_is_to_be_had_whatever_the_file_says(casrewind, home):
    configure(home, "nonsense")
    assert "usage" in casrewind("--help", code=0).out
    assert "usage" in casrewind("save", "--help", code=0).out


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CASREWIND_MAX_FILE_SIZE", "big", ["CASREWIND_MAX_FILE_SIZE", "'big'"]),
        ("CASREWIND_MAX_AGE", "", ["CASREWIND_MAX_AGE"]),
        ("CASREWIND_THIN", "2", ["CASREWIND_THIN"]),
        ("CASREWIND_TIER", "Balanced!", ["CASREWIND_TIER", "balanced"]),
        ("CASREWIND_MAX_COUNT", "1.5", ["CASREWIND_MAX_COUNT"]),
    ],
)
def test_a_variable_that_cannot_be_understood_is_64_and_named(casrewind, home, name, value, words):
    refused(casrewind, *words, **{name: value})
    assert not (home / "data").exists()


MISSPELT = {
    "CASREWIND_MAXAGE": "CASREWIND_MAX_AGE", "CASREWIND_RETENTION_MAX_AGE": "CASREWIND_MAX_AGE", "CASREWINDMAX_SIZE": "CASREWIND_MAX_SIZE",
    "CASREWIND_HOOKS_TIER": "CASREWIND_TIER", "CASREWIND_HOOM": "CASREWIND_HOME", "CASREWIND_REMOTE_KEYS": "CASREWIND_REMOTE_KEY",
    "CASREWIND_PUSH": "CASREWIND_REMOTE_PUSH",
}  # fmt: skip


@pytest.mark.parametrize("name", MISSPELT)
@pytest.mark.parametrize("words", [("status",), ("doctor",), ("config",)], ids=" ".join)
def test_a_misspelt_variable_is_named_with_the_right_name(casrewind, root, words, name):
    plant(root, {"f": b"x"})
    casrewind("save", code=0)
    line = f"casrewind: note: {name} has no effect: did you mean {MISSPELT[name]}?\n"
    for form in ([], ["--json"]):
        assert casrewind(*words, *form, code=0, **{name: "3", "CASREWIND_SEED": "3"}).err == casrewind(*words, *form, code=0).err + line


def test_a_misspelt_place_of_the_stores_is_named_where_no_store_is_found(casrewind):
    said = casrewind("status", code=10, CASREWIND_HOMES="/elsewhere").err
    assert said.startswith("casrewind: note: CASREWIND_HOMES has no effect: did you mean CASREWIND_HOME?\n") and "no store" in said


@pytest.mark.parametrize("name", ["CASREWIND_REMOTE_FROM_ENVIRONMENT", "CASREWIND_FROM_ENVIRONMENT"])
def test_the_setting_without_a_variable_is_named(casrewind, name):
    said = casrewind("config", code=0, **{name: "1"}).err
    assert said == f"casrewind: note: {name} has no effect: only the file sets remote.from_environment\n"


def test_no_variable_that_the_sources_name_is_taken_for_a_misspelt_one(monkeypatch):
    sources = [path.read_text() for path in Path(environment.__file__).parent.rglob("*") if path.suffix in (".py", ".js")]
    named = {name for text in sources for name in re.findall(r"CASREWIND_[A-Z_]*[A-Z]", text)}
    named |= set(client_process.session_variables("a", "s", "t", "r"))
    assert len(named) > 12
    for name in named:
        monkeypatch.setenv(name, "1")
    assert environment.misspelt_variables() == []


def test_a_hook_says_nothing_of_variables(casrewind, root):
    plant(root, {"f": b"x"})
    client = Client(casrewind, root)
    for event in ("SessionStart.startup", "UserPromptSubmit.prompt", "Stop.plain"):
        assert client.call(client.payload(event, session_id="s", prompt_id="p", prompt="go"), CASREWIND_MAXAGE="3d") == (0, b"", b"")


def test_variables_win_over_the_file(casrewind, home, root):
    configure(home, "[capture]\nmax_file_size = 1\ndefault_excludes = true\n[retention]\nmax_size = '1GiB'\n")
    plant(root, {"f": b"12345", "node_modules/m": b"x"})
    found = casrewind("save", "--json", code=0, CASREWIND_MAX_FILE_SIZE="4KiB", CASREWIND_DEFAULT_EXCLUDES="no").json
    assert found["files"] == 2 and found["skipped"] == []
    assert casrewind("status", "--json", code=0, CASREWIND_MAX_SIZE="2GB").json["budget_bytes"] == 2 * 10**9


@pytest.mark.parametrize("platform", [pytest.param("linux", marks=pytest.mark.linux_only("its usual directories")), "darwin"])
def test_xdg_variables_count_on_each_system_if_they_are_absolute(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    usual = {"linux": ("/h/.local/share", "/h/.config"), "darwin": ("/h/Library/Application Support",) * 2}[platform]
    for data, config, expected in ((None, None, usual), ("/d", "/c", ("/d", "/c")), ("relative", "", usual)):
        given = {"HOME": "/h", "XDG_DATA_HOME": data, "XDG_CONFIG_HOME": config}
        monkeypatch.setattr(os, "environ", {name: value for name, value in given.items() if value is not None})
        assert environment.data_directory() == f"{expected[0]}/casrewind"
        assert environment.configuration_path() == f"{expected[1]}/casrewind/config.toml"
    monkeypatch.setattr(os, "environ", {"HOME": "/h", "XDG_DATA_HOME": "/d", "CASREWIND_HOME": "/own"})
    assert environment.data_directory() == "/own"


def test_where_the_file_and_the_stores_are_follows_the_platforms_variables(casrewind, home, root, tmp_path):
    plant(root, {"f": b"12345"})
    plant(tmp_path / "xdg", {"casrewind/config.toml": b"[capture]\nmax_file_size = 1\n"})
    found = casrewind("save", "--json", code=0, XDG_CONFIG_HOME=str(tmp_path / "xdg")).json
    assert found["skipped"] == [{"path": "f", "reason": "too large"}]
    assert casrewind("save", "--json", code=0, XDG_CONFIG_HOME="relative/is/ignored").json["files"] == 1
    del casrewind.environment["CASREWIND_HOME"]
    casrewind("save", code=0, XDG_DATA_HOME=str(tmp_path / "data"))
    assert os.path.isdir(tmp_path / "data/casrewind/stores")
    casrewind("save", code=0)
    store = casrewind.json("status")["store"]
    assert store.startswith(str(home)) and os.stat(store).st_mode & 0o777 == 0o700
    casrewind("--store", str(tmp_path / "own"), "save", code=0)
    assert casrewind("--store", str(tmp_path / "own"), "status", "--json", code=0).json["store"] == str(tmp_path / "own")


def test_two_projects_of_one_name_have_two_stores(casrewind, root, home, tmp_path):
    from support.command_in_process import InProcess

    (tmp_path / "other/project").mkdir(parents=True)
    other = InProcess(tmp_path / "other/project", home)
    assert casrewind.json("save")["checkpoint"] != other.json("save")["checkpoint"]
    stores = {command.json("status")["store"] for command in (casrewind, other)}
    assert len(stores) == 2 and all("project-" in store for store in stores)


# -- a project's own file


def test_a_project_may_add_ignore_rules_and_lower_the_limit(casrewind, root):
    plant(root, {".casrewind.toml": b'ignore = ["*.log", "/out/"]\n[capture]\nmax_file_size = 60\n'})
    plant(root, {"a.log": b"x", "out/f": b"x", "src/out/f": b"x", "large": b"x" * 61})
    casrewind.json("save")
    shown = casrewind.json("show", "last")
    assert [entry["path"] for entry in shown["entries"]] == [".casrewind.toml", "src", "src/out", "src/out/f"]
    assert shown["skipped"] == [{"path": "large", "reason": "too large"}]


def test_status_says_what_the_limit_of_a_project_leaves_out(casrewind, root):
    plant(root, {".casrewind.toml": b"[capture]\nmax_file_size = 60\n", "f": b"x", "large": b"x" * 61, "d/large": b"x" * 99})
    assert casrewind("save", "--json", code=0).json["files"] == 2
    assert "limits files to 60 bytes: 2 files are not captured" in " ".join(casrewind.json("status")["reasons"])
    plant(root, {".casrewind.toml": b"[capture]\nmax_file_size = 1\n", "f": b"xx"})
    casrewind("save", code=0)
    status = casrewind.json("status")
    assert not status["protected"], "nothing is captured"
    assert "limits files to 1 byte: 4 files are not captured" in " ".join(status["reasons"])


LIMIT = (1 << 20) + 1


@pytest.mark.parametrize("where", ["configuration", "environment", "project"])
def test_a_lower_limit_counts_for_files_that_were_captured_before(casrewind, home, root, where):
    plant(root, {"a/large": b"x" * LIMIT, "a/small": b"x", "b/small": b"y", **{f"c{n}/f": b"%d" % n for n in range(20)}})
    settle()

    def save(limit, *options):
        variables = {"CASREWIND_MAX_FILE_SIZE": str(limit)} if where == "environment" else {}
        if where == "configuration":
            configure(home, f"[capture]\nmax_file_size = {limit}\n")
        if where == "project":
            plant(root, {".casrewind.toml": f"[capture]\nmax_file_size = {limit}\n".encode()})
            settle()
        return casrewind("save", "--json", *options, code=0, **variables).json

    files = save(LIMIT)["files"]
    assert not save(LIMIT)["created"]
    for options in ((), ("--rehash",)):
        lower = save(LIMIT - 1, *options)
        assert lower["skipped"] == [{"path": "a/large", "reason": "too large"}] and lower["files"] == files - 1
        higher = save(LIMIT)
        assert higher["skipped"] == [] and higher["files"] == files


def test_a_project_may_not_raise_the_limit(casrewind, root):
    plant(root, {".casrewind.toml": b"[capture]\nmax_file_size = '1TiB'\n", "f": b"x" * 101})
    found = casrewind("save", "--json", code=0, CASREWIND_MAX_FILE_SIZE="100").json
    assert found["skipped"] == [{"path": "f", "reason": "too large"}]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b"[retention]\nmax_age = '1s'\n", "'retention'"),
        (b"[retention]\nmax_count = 1\n", "'retention'"),
        (b"[hooks]\ntier = 'minimal'\n", "'hooks'"),
        (b"[capture]\ntranscripts = false\n", "'capture.transcripts'"),
        (b"[capture]\nmax_file_size = '2MiB'\ndefault_excludes = false\n", "'capture.default_excludes'"),
        (b"ignore = '*'\n", "'ignore'"),
        (b"ignore = [1]\n", "'ignore'"),
        (b"capture = 1\n", "'capture'"),
        (b"[capture]\nmax_file_size = 'all'\n", "'all'"),
        (b"what is this\n", "line 1"),
        (b"\xff", "cannot be read"),
    ],
)
def test_what_a_project_may_not_say_is_named_and_ends_no_save(casrewind, root, text, word):
    plant(root, {"f": b"x", "node_modules/m": b"x"})
    casrewind.json("save")
    plant(root, {".casrewind.toml": text, "f": b"y"})
    found = casrewind("save", "--json", code=3).json
    assert found["created"] and found["files"] == 2
    assert {"path": "node_modules", "reason": "built-in exclude"} in found["skipped"]
    (said,) = [skip["reason"] for skip in found["skipped"] if skip["path"] == ".casrewind.toml"]
    assert word in said
    assert word in casrewind("save", "-m", "again", code=3).err and word in casrewind("config", code=0).err
    assert len(casrewind.json("list")["checkpoints"]) == 3


def test_the_keys_that_can_be_read_count_beside_one_that_cannot(casrewind, root):
    plant(root, {".casrewind.toml": b'ignored = ["f"]\nignore = ["g"]\n[capture]\nmax_size = 1\n', "f": b"x", "g": b"x"})
    found = casrewind("save", "--json", code=3).json
    assert "'ignored'" in found["skipped"][0]["reason"] and "'capture.max_size'" in found["skipped"][0]["reason"]
    assert [entry["path"] for entry in casrewind.json("show", "last")["entries"]] == [".casrewind.toml", "f"]


def test_a_projects_file_that_is_a_link_is_not_followed(casrewind, root, tmp_path):
    plant(tmp_path, {"elsewhere": b"ignore = ['*']\n"})
    plant(root, {"f": b"x"})
    (root / ".casrewind.toml").symlink_to(tmp_path / "elsewhere")
    assert casrewind("save", "--json", code=3).json["files"] == 1
