"""An open question of one command, and another command on the same project."""

import sys

import pytest

from support.trees import plant


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc/locks is of Linux")
def test_a_restore_that_waits_for_an_answer_is_named(root, process, terminal):
    plant(root, {"a": b"1"})
    process("save", code=0)
    plant(root, {"a": b"2"})
    asking = terminal("restore", "last")
    asking.read_until(b"Go on?")
    refused = process("restore", "last", "-y", code=11)
    assert f"process {asking.process.pid} holds it; answer its question" in refused.err
    asking.type("n\n")
    assert asking.end()[0] == 0
    process("restore", "last", "-y", code=0)
