"""The JSON schema of the commands' output, and as much of a validator as that needs."""

import json
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "json" / "casrewind.schema.json"
_TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None), "number": (int, float)}
_KNOWN = {"type", "required", "properties", "additionalProperties", "items", "anyOf", "enum", "const", "$ref"}


@cache
def schema():
    return json.loads(PAGE.read_text("utf-8"))


def schema_faults(found, command, *, closed=True):
    """What is wrong with the output of a command. `closed`: a property that the schema does not name is wrong, too."""
    if found.get("format") != 1:
        return ["format is not 1"]
    rest = {name: value for name, value in found.items() if name != "format"}
    name = "error" if "error" in rest else command
    return list(_faults(rest, schema()["$defs"][name], name, closed))


def _faults(value, rule, where, closed):
    assert set(rule) <= _KNOWN, rule
    if "$ref" in rule:
        yield from _faults(value, schema()["$defs"][rule["$ref"].rpartition("/")[2]], where, closed)
    if "anyOf" in rule:
        tried = [list(_faults(value, one, where, closed)) for one in rule["anyOf"]]
        if all(tried):
            yield from min(tried, key=len)
    if "enum" in rule and value not in rule["enum"]:
        yield f"{where}: {value!r} is not one of {rule['enum']}"
    if "type" in rule:
        names = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
        if not any(isinstance(value, _TYPES[name]) and (name == "boolean") >= isinstance(value, bool) for name in names):
            yield f"{where}: {value!r} is not {' or '.join(names)}"
            return
    if isinstance(value, dict):
        yield from (f"{where}: {name} is missing" for name in rule.get("required", ()) if name not in value)
        for name, item in value.items():
            below = rule.get("properties", {}).get(name, rule.get("additionalProperties"))
            if below is not None:
                yield from _faults(item, below, f"{where}.{name}", closed)
            elif closed and "properties" in rule:
                yield f"{where}: {name} is not in the schema"
    if isinstance(value, list) and "items" in rule:
        for number, item in enumerate(value):
            yield from _faults(item, rule["items"], f"{where}[{number}]", closed)
