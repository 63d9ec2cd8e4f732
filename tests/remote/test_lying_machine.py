"""A machine with the key that makes any record, id, label, pin, name and tree it likes: nothing of others changes, and no later command fails.

The records are those of the product's own encoder with odd values in each field (support/lies.py). What the reader has of itself and of an
honest machine is pictured before and after, by commands and by the store, also after the index was made anew from the ledger.
"""

import random
import shutil
from pathlib import Path

import pytest

from support.command_in_process import InProcess
from support.lies import Liar
from support.machines import KEY, Machine

pytest.importorskip("obstore")

SESSION = "724e887c-8b5c-4165-b4fb-0279e9258e69"


@pytest.fixture
def honest(tmp_path):
    return Machine.with_remote(tmp_path / "honest", f"file://{tmp_path}/bucket")


@pytest.fixture
def victim(tmp_path, honest):
    return Machine.with_remote(tmp_path / "victim", honest.url, "laptop")


def commands(machine):
    with machine.open() as workspace:
        store = workspace._context.store.path
    run = InProcess(machine.root, machine.home, CASREWIND_REMOTE_KEY=KEY, CASREWIND_HOME=machine.settings.data)
    return store, lambda *words, code=(0,): said(run("--store", store, *words), words, code)


def said(found, words, code):
    assert found.code in code and "Traceback" not in found.err, (words, found)
    assert "\x1b" not in found.out and "\x1b" not in found.err, words
    return found.out


def picture(machine, ids, run):
    """All that these checkpoints are here: rows, pins, labels, trees, contents, and what the commands say of them."""
    with machine.open() as workspace:
        context = workspace._context
        store = context.store
        found = {identity: (store.checkpoint(identity), workspace.marks(identity), dict(workspace.entries(identity))) for identity in ids}
        found["history"] = store.history(context.root.key), store.operations(), [one for one in store.rewinds() if one.worktree == context.root.key]
        found["head"] = [point and point.id for point in store.newest_and_newest_listed(context.root.key)]
    found["trees"] = {identity: machine.tree(identity) for identity in ids}
    found["list"] = run("list", "--json", "--all")
    found["shown"] = [run("show", identity, "--json", code=(0, 3)) for identity in ids]
    found["files"] = [run("cat", f"{identity}:a") for identity in ids]
    return found


def liar_about(some, honest, victim, ids):
    with victim.open() as workspace:
        store = workspace._context.store
        points = [store.checkpoint(identity) for identity in ids]
    with honest.open() as workspace:
        keys = {point.worktree for point in points} | {workspace._context.root.key}
    return Liar(
        some, honest.url, ids=ids, trees=[point.tree for point in points], domains=[point.domain for point in points], keys=sorted(keys),
        sessions=[SESSION, ""], chains=[honest.chain(), victim.chain()],
    )  # fmt: skip


@pytest.mark.turns(3)
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("rounds", "chains"), [(3, 40), pytest.param(10, 1000, marks=pytest.mark.long)])
def test_whatever_a_machine_with_the_key_writes_changes_nothing_of_others(honest, victim, tmp_path, rounds, chains, request):
    some = random.Random(rounds * chains)
    ids = []
    for machine in (honest, victim):
        for step in range(2):
            ids.append(machine.save({"a": b"%d of %s" % (step, machine.name.encode()), "d/e": b"e"}, f"label {step}").id)
        with machine.open() as workspace:
            workspace.pin(ids[-1], "pinned")
        machine.push()
    victim.pull()
    store, run = commands(victim)
    clones = 0
    for number in range(rounds):
        before = picture(victim, ids, run)
        liar = liar_about(some, honest, victim, ids)
        for _ in range(chains):
            liar.put_chain()
        run("pull", "--newest", code=(0, 3))
        run("pull", code=(0, 3))
        assert picture(victim, ids, run) == before
        shutil.rmtree(Path(store, "index"))
        assert picture(victim, ids, run) == before, "the ledger says the same"
        for line in ("list --all", "list --remote --all", "list --remote --all --json", "status", "verify", "gc", "diff last", "restore last -n"):
            run(*line.split(), code=(0, 3) if line != "verify" else (0,))
        assert picture(victim, ids, run)["trees"] == before["trees"]
        ids.append(victim.save({"a": b"later %d" % number}).id)
        ids.append(honest.save({"a": b"there %d" % number}).id)
        honest.push()
        run("pull", code=(0, 3))
        assert set(ids) <= set(victim.points()), "what the honest machine pushes later is taken"
        victim.push()
    for reference in sorted({name.partition("/")[0] for name in victim.pull_names()}):
        if clones == 3:
            break
        try:
            clone = honest.clone_to(tmp_path / f"clone{clones}", reference=reference, everything=True)
        except Exception as error:  # its newest may lack content
            assert type(error).__module__ == "casrewind.errors", error
            continue
        clones += 1
        assert clone.save({"g": b"mine"}).files and not clone.problems()
    assert clones
