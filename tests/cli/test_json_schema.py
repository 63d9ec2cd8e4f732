"""What every command prints with --json is what the schema in docs/json says; and errors are one JSON object."""

import json

import pytest

from casrewind.cli.grammar.command_table import COMMANDS, load_command
from support.output_schema import schema, schema_faults
from support.trees import plant

WITHOUT = {name for name in COMMANDS if not any(option.attribute == "json" for option in load_command(name).options)}


def test_every_command_with_json_has_a_schema():
    assert set(COMMANDS) - WITHOUT <= set(schema()["$defs"])
    assert WITHOUT == {"attest", "cat", "export", "run", "completion", "help", "version", "statusline"}


def test_the_schema_is_valid_as_such():
    def walk(rule):
        assert isinstance(rule, dict)
        assert set(rule) <= {"type", "required", "properties", "additionalProperties", "items", "anyOf", "enum", "const", "$ref"}, rule
        assert set(rule.get("required", ())) <= set(rule.get("properties", {}))
        if "$ref" in rule:
            assert rule["$ref"].removeprefix("#/$defs/") in schema()["$defs"]
        for below in (*rule.get("properties", {}).values(), *rule.get("anyOf", ()), *([rule["items"]] if "items" in rule else [])):
            walk(below)

    for rule in schema()["$defs"].values():
        walk(rule)


def test_what_is_not_in_the_schema_is_noticed():
    rest = {"turns": [], "rows": []}
    assert schema_faults({"format": 1, "checkpoints": [], **rest}, "list") == []
    assert schema_faults({"checkpoints": [], **rest}, "list") and schema_faults({"format": 1}, "list") and schema_faults({"format": 1, "checkpoints": 1, **rest}, "list")
    more = {"format": 1, "checkpoints": [], **rest, "more": 1}
    assert schema_faults(more, "list") and not schema_faults(more, "list", closed=False)
    assert schema_faults({"format": 1, "error": {"code": True, "message": "", "hint": None}}, "list")


LINES = [
    "save -m first", "list", "list --all", "show", "diff", "diff last -- f", "restore last -n", "restore last -y", "undo -n", "undo --list", "undo -y",
    "redo --list", "redo -n", "redo -y", "log f", "log *", "status", "gc -n", "gc", "du", "du --by path", "pin last name", "unpin last", "stores",
    "stores --prune-missing 1d -n", "verify", "purge d -n", "config", "install claude", "doctor", "uninstall claude", "install claude --plugin ../plugin",
]  # fmt: skip


def test_what_is_printed_is_what_the_schema_says(casrewind, root):
    plant(root, {"f": b"1", "d/g": b"2", b"caf\xe9": b"3"})
    casrewind("save", code=0)
    plant(root, {"f": b"2"})
    casrewind("save", "-m", "second", code=0)
    plant(root, {"f": b"3", "new": b"n"})
    for line in LINES:
        words = line.split()
        found = casrewind(words[0], "--json", *words[1:])
        assert found.out, (line, found)
        assert schema_faults(json.loads(found.out), line.split()[0]) == [], (line, found)


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("show nothing", 15, "casrewind list --all shows what there is"), ("undo", 15, None), ("list --nonsense", 64, "casrewind list --help shows more"),
        ("sav", 64, None), ("diff nothing", 15, "casrewind list --all shows what there is"), ("restore last", 64, "--yes"), ("back 1", 16, "casrewind install"),
        ("-C /no/such status", 10, None), ("doctor nobody", 16, None), ("gc --max-age never", 64, None),
    ],
)  # fmt: skip
def test_an_error_is_one_object_and_one_line(casrewind, root, line, code, hint):
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    found = casrewind(*line.split(), "--json", code=code)
    told = json.loads(found.out)
    assert schema_faults(told, "error") == [] and told["error"]["code"] == code and found.out.count("\n") == 1
    assert found.err.startswith(f"casrewind: {told['error']['message']}") and found.err.count("\n") == 1
    assert hint is None or hint in told["error"]["hint"]


def test_a_command_that_printed_its_report_prints_no_error(casrewind, root):
    plant(root, {"f": b"1"})
    casrewind("save", code=0)
    found = casrewind("diff", "last", "--json", "--", "f", "absent", code=3)
    assert found.out.count("\n") == 1 and "error" not in json.loads(found.out)


def test_without_json_nothing_is_printed_on_standard_output(casrewind):
    assert casrewind("show", "nothing").out == ""
    assert casrewind("run", "no-such-command-here", "--json").out == ""
