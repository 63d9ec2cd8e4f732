"""Proofs after a clone, a pull and a move: an old one stays sound, and a new one goes on with the same chain."""

import json
import shutil

from casrewind.history import machine_key, proof
from casrewind.remote.take_over import adopt
from support.machines import Machine


def attested(machine):
    with machine.open() as workspace:
        made = proof.attest(workspace._context)
        pem = machine_key.public_pem(machine_key.find_or_make_key(workspace._context.data))
    return json.dumps(made.envelope).encode(), pem, made


def test_a_clone_goes_on_with_the_chain_and_a_pull_leaves_it_alone(tmp_path):
    url = f"file://{tmp_path}/bucket"
    one = Machine.with_remote(tmp_path / "one", url)
    for number in range(4):
        one.save({"f": b"%d" % number}, f"save {number}")
    one.push()
    old, pem, made = attested(one)
    for name, everything, count in (("two", True, 5), ("three", False, 2)):
        other = one.clone_to(tmp_path / name, name, everything=everything)
        other.save({"f": name.encode()}, "there")
        new, key, there = attested(other)
        found = proof.check(new, key, made.anchor)
        assert found.problems == () and found.statements == there.statements == count
        other.push()
    one.pull()
    again, pem, after = attested(one)
    assert (after.anchor, after.statements) == (made.anchor, made.statements)
    assert proof.check(again, pem, made.anchor).problems == proof.check(old, pem, made.anchor).problems == ()
    one.save({"f": b"after the pull"}, "after")
    assert proof.check(attested(one)[0], pem, made.anchor).problems == ()


def test_a_project_that_was_moved_goes_on_with_its_chain(tmp_path):
    one = Machine.with_remote(tmp_path / "one", f"file://{tmp_path}/bucket")
    for number in range(3):
        one.save({"f": b"%d" % number}, f"save {number}")
    old, pem, made = attested(one)
    moved = tmp_path / "one" / "moved"
    shutil.move(one.root, moved)
    adopt(str(moved), str(one.root), one.settings)
    one.root = moved
    one.save({"f": b"moved"}, "moved")
    new, pem, after = attested(one)
    assert after.statements == made.statements + 1
    assert proof.check(new, pem, made.anchor).problems == proof.check(old, pem, made.anchor).problems == ()
