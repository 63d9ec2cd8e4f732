"""JSON without the json package: the same values, the same refusals."""

import json
import os
import random
import subprocess
import sys

import pytest

from casrewind import fastjson

HERE = os.path.dirname(os.path.dirname(fastjson.__file__))

TEXTS = [
    "{}", " [1, 2.5, -3e7, 1E400] ", '\t{"a": {"b": [true, false, null]}}\r\n', '"\\u00e9\\ud83d\\ude00\\ud800"', "NaN", "[-Infinity, Infinity]",
    "12345678901234567890123456789", '{"a": 1, "a": 2}', "", " ", "{", "[1,]", "{'a': 1}", "01", "1 2", "\ufeff{}", '"\n"', "nul", "{} x",
    "\u00a0{}", '{"a" 1}', '"\\x"', "[" * 100_000, "-", "1.", "\x00", '{"k": "' + "\u2028" * 3 + '"}',
]  # fmt: skip


def outcome(loads, text):
    try:
        return repr(loads(text))  # so that NaN equals NaN, and 1 does not equal True
    except (ValueError, RecursionError) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_it_answers_as_json_does(text):
    assert outcome(fastjson.loads, text) == outcome(json.loads, text)


def test_it_answers_as_json_does_whatever_is_cut_or_changed():
    seed = random.Random(7)
    whole = json.dumps({"session_id": "a-b", "n": [1, -2.5e3, None, {"é\"": "\\\ud800"}], "": {}, "deep": [[[True]]]}, indent=1)
    for _ in range(3000):
        text = list(whole)
        for _ in range(seed.randrange(3)):
            text[seed.randrange(len(text))] = seed.choice('{}[]",:0e-\\u \n\x01x')
        text = "".join(text)[: seed.randrange(len(text) + 1)] if seed.random() < 0.4 else "".join(text)
        assert outcome(fastjson.loads, text) == outcome(json.loads, text), text


def test_what_is_no_json_is_refused_where_json_was_never_imported():
    code = (
        "import sys\nfrom casrewind import fastjson\nassert fastjson.loads('[1]') == [1] and 'json' not in sys.modules\n"
        "try:\n    fastjson.loads(sys.argv[1])\nexcept ValueError as error:\n    print(type(error).__name__)"
    )
    for text in ("{", "{'", "[1,", "", '"\\x"', '"a'):
        done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {HERE!r})\n{code}", text], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("JSONDecodeError\n", ""), text


def test_a_flat_object_is_written_as_json_writes_it():
    value = {"a": "b", "\u00e9\n": "\ud800\U0001f600\"\\\x00", "n": -12, "big": 10**30, "yes": True, "no": False, "": ""}
    assert fastjson.encode_flat(value) == json.dumps(value) and json.loads(fastjson.encode_flat(value)) == value
    for wrong in (None, 1.5, [], b""):
        with pytest.raises(TypeError):
            fastjson.encode_flat({"a": wrong})


def test_a_scanner_that_asks_for_a_rule_of_a_later_python_is_not_used():
    """Python 3.15 asked for `array_hook`: every command that read JSON ended with 70."""
    script = """import _json
make = _json.make_scanner
_json.make_scanner = lambda rules: make(rules) if hasattr(rules, "memo") else rules.hook_of_python_3_99
from casrewind.fastjson import loads
print(loads('[1, {"a": null}]'))"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[1, {'a': None}]\n"), done.stderr
