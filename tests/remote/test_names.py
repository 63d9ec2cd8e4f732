"""Names of machines, bases and pairs: a clone by one looks at a page of entries and one chain. Whatever entries say, it takes no other chain
than a list of every object gives, and names what it left out."""

import json
from pathlib import Path

import pytest

from casrewind import errors
from casrewind.remote import clone, collect, names, old_chains, probe, remote_config
from casrewind.remote.objects import Objects
from support.command_in_process import InProcess
from support.machines import KEY, Machine, Requests, Stop, keys_of, stopping
from support.server_days import BEGIN, DAY, Calendar, Clocked

pytest.importorskip("obstore")

MINUTE = DAY // 1440


@pytest.fixture
def calendar(monkeypatch):
    made = Calendar(monkeypatch)
    monkeypatch.setattr(clone, "Objects", lambda *arguments: made.of(Objects(*arguments)))
    return made


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/bucket"


@pytest.fixture
def machine_of(tmp_path, url, calendar):
    def make(name, place=None):
        made = Clocked(calendar, tmp_path / (place or name), url, name)
        made.add_remote()
        return made

    return make


@pytest.fixture
def cloned(tmp_path, calendar, url):
    """A function that clones by a reference: (the checkpoint's id, what is said of the name, what was listed)."""
    count = iter(range(99))

    def run(reference="", **options):
        calendar.asked.clear()
        made = Machine(tmp_path / f"clone{next(count)}", url, "laptop")
        made.root.rmdir()
        found = clone.clone(clone.RemoteConfig(url, "laptop"), str(made.root), made.settings, made.environ, reference=reference, **options)
        assert found.problems == ()
        return found.point.id, found.notes, [*calendar.asked]

    return run


def saved(machine, **options):
    point = machine.save({"a": b"%d %d" % (len(machine.points()), id(machine))})
    machine.push(**options)
    return point.id


def name_it(machine, *given):
    with machine.open() as workspace:
        return names.put_names(workspace._context, machine.remote(workspace), given)


def entries_of(url):
    return sorted((path for path in (Path(url.removeprefix("file://")) / "names").glob("*/*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns)


def lists_all(asked):
    return "" in asked


def test_a_clone_by_a_machines_name_lists_its_entries_and_its_chain(machine_of, cloned):
    ids = {name: [saved(machine), saved(machine)] for name, machine in ((f"m{n}", machine_of(f"m{n}")) for n in range(5))}
    for reference, wanted in (("m3", ids["m3"][1]), ("m3:last", ids["m3"][1]), ("m1:prev", ids["m1"][0]), (f"m2:{ids['m2'][0][:9]}", ids["m2"][0])):
        found, said, asked = cloned(reference)
        assert found == wanted and said == () and not lists_all(asked)
    with pytest.raises(errors.CheckpointNotFound, match="no checkpoint 'm1:none'"):
        cloned("m1:none")


def test_a_base_is_the_checkpoint_of_that_push_whatever_its_chain_gets_later(machine_of, cloned, calendar):
    one, other = machine_of("one"), machine_of("other")
    first = saved(one)
    assert name_it(one, names.base_of("base"), names.pair_of("run=123")) == []
    saved(one)
    assert cloned("base")[:2] == (first, ()) and cloned(meta="run=123")[0] == first
    calendar.day = 1
    second = saved(other)
    assert name_it(other, names.base_of("base")) == []
    found, said, asked = cloned("base")
    assert (found, said) == (second, ()) and len(asked) == 2
    with pytest.raises(errors.CheckpointNotFound, match="run=124"):
        cloned(meta="run=124")
    assert cloned(meta="run=123")[0] == first


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_wherever_a_first_push_is_cut_an_older_machine_of_its_name_does_not_hide_it(machine_of, cloned, calendar, after):
    wanted, cuts = saved(machine_of("sandbox", "one")), 0
    for number in range(1, 8):
        calendar.day += 1
        new = machine_of("sandbox", f"new{number}")
        with new.open() as workspace:
            probe.require(new.remote(workspace))
        point = new.save({"a": b"%d" % number})
        new.tampered = lambda found, number=number: Requests(calendar.of(found), stopping(number, after=after))
        try:
            new.push()
        except Stop:
            cuts += 1
        is_there = any(name.startswith(f"{new.chain()}/") for name in calendar.times)
        assert cloned("sandbox")[0] == (point.id if is_there else wanted)
        new.tampered = calendar.of
        new.push()
        wanted = point.id
        assert cloned("sandbox")[0] == wanted
    assert cuts == 3, "the hint, the name, the piece"


def test_of_two_machines_of_one_name_the_one_that_pushed_last_counts(machine_of, cloned, calendar):
    one, two = machine_of("sandbox", "one"), machine_of("sandbox", "two")
    saved(one)
    calendar.day = 1
    of_two = saved(two)
    calendar.day = 2
    newest = saved(one)
    found, said, asked = cloned("sandbox")
    assert found == newest and "the newest of 2 machines" in said[0] and f"the others: sandbox.{two.chain()[:8]}" in said[0]
    found, said, asked = cloned(f"sandbox.{two.chain()[:6]}")
    assert (found, said) == (of_two, ()) and not lists_all(asked)


def test_a_machine_with_another_name_is_not_found_by_the_one_before(machine_of, cloned, calendar):
    machine, other = machine_of("before"), machine_of("before", "namesake")
    of_other = saved(other)
    calendar.day = 1
    saved(machine)
    with machine.open() as workspace:
        store = workspace._context.store
        directory, found = remote_config.need(store)
        head = (Path(directory) / remote_config.HEAD).read_bytes()
        remote_config.write(store, remote_config.identity_of(directory), found._replace(machine="after"), None, head)
    newest = saved(machine)
    assert len(entries_of(machine.url)) == 3
    assert cloned("after")[:2] == (newest, ())
    found, said, asked = cloned("before")
    assert found == of_other and not lists_all(asked)
    assert said == (f"left out: the entry of before.{machine.chain()[:8]}: its chain does not say so, or cannot be read",)
    with pytest.raises(errors.CheckpointNotFound, match="pushed one checkpoint only"):
        cloned("before:prev")
    other.tampered = calendar.of
    for entry in entries_of(machine.url):
        if other.chain() in entry.name:
            entry.unlink()
    found, said, asked = cloned("before")
    assert found == of_other and lists_all(asked)
    assert f"left out: the entry of before.{machine.chain()[:8]}: its chain does not say so" in said[0] and "found among all chains" in said[-1]


def test_a_name_without_entries_is_found_among_all_chains_and_that_is_said(machine_of, cloned, url):
    wanted = saved(machine_of("sandbox"))
    saved(machine_of("other"))
    for entry in entries_of(url):
        entry.unlink()
    found, said, asked = cloned("sandbox")
    assert found == wanted and said == ("sandbox: found among all chains, because none of its entries counts",) and lists_all(asked)


def test_what_has_no_right_digits_asks_for_nothing_and_is_named(machine_of, cloned, url, calendar):
    """An entry that was forged, and one that was renamed to lead to another chain."""
    machine, other = machine_of("sandbox"), machine_of("other")
    calendar.day = 1
    wanted = saved(machine)
    calendar.day = 2
    saved(other)
    name_it(machine, names.base_of("base"))
    for entry in entries_of(url):
        if machine.chain() in entry.name:
            (entry.parent / entry.name.replace(machine.chain(), other.chain())).touch()
            (entry.parent / "9").touch()
    for reference in ("sandbox", "base"):
        found, said, asked = cloned(reference)
        assert found == wanted and other.chain() not in asked and not lists_all(asked)
        assert said[-1] == f"2 objects below the name {reference} left out: not put by who has the key"


def test_an_entry_of_the_key_that_leads_to_another_machine_is_left_out_and_named(machine_of, cloned, url, calendar):
    machine, other = machine_of("sandbox"), machine_of("other")
    wanted = saved(machine)
    of_other = saved(other)
    with other.open() as workspace:
        names._put(other.remote(workspace), names.Name(names.MACHINE, "", "sandbox"))
        names._put(other.remote(workspace), names.base_of("base"), wanted)
    assert cloned("sandbox")[0] == wanted
    with pytest.raises(errors.CheckpointNotFound, match=rf"left out: the entry of base.{other.chain()[:8]}: its chain does not say so"):
        cloned("base")
    assert of_other != wanted


def test_a_clock_that_is_ahead_hides_no_later_base(machine_of, cloned, calendar):
    one, other = machine_of("one"), machine_of("other")
    one.wrong = 365
    saved(one)
    name_it(one, names.base_of("base"))
    calendar.day = 1
    wanted = saved(other)
    name_it(other, names.base_of("base"))
    assert cloned("base")[:2] == (wanted, ())


def test_an_entry_behind_the_server_is_left_out_and_named_there_and_here(machine_of, cloned, calendar):
    one, other = machine_of("one"), machine_of("other")
    wanted = saved(one)
    assert name_it(one, names.base_of("base")) == []
    calendar.day, other.wrong = 1, -11 / 1440
    late = saved(other)
    (problem,) = name_it(other, names.base_of("base"))
    assert problem.startswith("base does not count: this machine's clock is more than ten minutes behind")
    found, said, _ = cloned("base")
    assert found == wanted and f"left out: base.{other.chain()[:8]}: put by a clock" in said[0]
    found, said, asked = cloned("other")
    assert found == late and lists_all(asked) and f"left out: other.{other.chain()[:8]}" in said[0]
    with other.open() as workspace:
        assert names.put_names(workspace._context, other.remote(workspace), [names.base_of("new")]) != []
    other.wrong = -9 / 1440
    assert name_it(other, names.base_of("new")) == []
    other.wrong = -11 / 1440
    assert name_it(other, names.base_of("new")) != [], "an earlier entry of the same checkpoint is another one"
    other.wrong = -9 / 1440
    assert name_it(other, names.base_of("base")) == [] and cloned("base")[0] == late


def test_a_copy_of_an_old_entry_is_no_new_one(machine_of, cloned, calendar, url):
    one, other = machine_of("one"), machine_of("other")
    saved(one)
    name_it(one, names.base_of("base"))
    calendar.day = 1
    wanted = saved(other)
    name_it(other, names.base_of("base"))
    calendar.day = 2
    calendar.times = {name: calendar.now() if "names/" in name and one.chain() in name else time for name, time in calendar.times.items()}
    found, said, _ = cloned("base")
    assert found == wanted and "or copied later" in said[0]


def test_behind_a_full_page_nothing_newer_is_missed(machine_of, cloned, calendar, monkeypatch):
    """A machine whose clock is a year ahead fills the first page, as long as its entries are newer than what may be behind it."""
    monkeypatch.setattr(names, "_ONE_PAGE", 3)
    objects = calendar.of

    def paged(found):
        made = objects(found)
        whole = made.list
        made.list = lambda prefix="", after="", most=None: whole(prefix, after)[:most]
        return made

    monkeypatch.setattr(clone, "Objects", lambda *arguments: paged(Objects(*arguments)))
    ahead, other = machine_of("ahead"), machine_of("other")
    saved(ahead)
    for ahead.wrong in (365, 366, 367, 368):
        name_it(ahead, names.base_of("base"))
    calendar.day = 1
    wanted = saved(other)
    name_it(other, names.base_of("base"))
    found, _, asked = cloned("base")
    assert found == wanted and len([one for one in asked if one.startswith("names")]) == 2
    for calendar.day in (2, 2.1, 2.2):
        wanted = saved(other)
        name_it(other, names.base_of("new"))
        name_it(other, names.base_of("new"))
    for calendar.day in (2.3, 2.4, 2.5, 2.6):
        wanted = saved(other)
        name_it(other, names.base_of("new"))
    found, _, asked = cloned("new")
    assert found == wanted and len([one for one in asked if one.startswith("names")]) == 1


def test_names_go_with_their_chain(machine_of, cloned, calendar, url):
    """A purge, a push anew and a removal: what led to the chain is deleted, and the new chain has its machine's name."""
    machine, remover = machine_of("sandbox"), machine_of("remover")
    machine.save({"secret": b"s"})
    saved(machine)
    name_it(machine, names.base_of("base"))
    with machine.open() as workspace:
        workspace.purge([b"secret"])
    wanted = saved(machine)
    assert [machine.chain() in entry.name for entry in entries_of(url)] == [True]
    assert cloned("sandbox")[:2] == (wanted, ())
    with pytest.raises(errors.CheckpointNotFound):
        cloned("base")
    machine.push(anew=True)
    assert [machine.chain() in entry.name for entry in entries_of(url)] == [True] and cloned("sandbox")[0] == wanted
    calendar.day = 2
    saved(remover)
    with remover.open() as workspace:
        remote = remover.remote(workspace)
        assert [one.chain for one in old_chains.remove(remote, old_chains.find_old(remote, 3600.0)).chains] == [machine.chain()]
    assert [machine.chain() in entry.name for entry in entries_of(url)] == [False]


def test_who_may_not_delete_empties_a_chain_all_the_same(machine_of, cloned, calendar, url):
    """What is left of its names leads to a chain that has ended."""
    machine = machine_of("sandbox")
    saved(machine)
    name_it(machine, names.base_of("base"))

    def may_not_delete(found):
        made = calendar.of(found)

        def delete(given):
            if any(name.startswith("names/") for name in given):
                raise errors.RemoteError("access denied")

        made.delete = delete
        return made

    machine.tampered = may_not_delete
    wanted = machine.save({"a": b"later"}).id
    assert machine.push(anew=True).left == () and len(entries_of(url)) == 3
    with pytest.raises(errors.CheckpointNotFound, match="left out: the entry of base"):
        cloned("base")
    assert cloned("sandbox")[0] == wanted


def test_an_export_and_a_roll_up_put_no_name(machine_of, monkeypatch, url):
    machine = machine_of("sandbox")
    monkeypatch.setattr(collect, "EVERY", 4)
    for _ in range(5):
        saved(machine)
    assert len(entries_of(url)) == 1


def test_names_that_cannot_be(tmp_path, url):
    for text in ("", "a b", "a:b", "-", "x" * 65):
        with pytest.raises(errors.UsageError):
            names.base_of(text)
    for text in ("", "run", "run=", "=1"):
        with pytest.raises(errors.UsageError):
            names.pair_of(text)
    assert names.pair_of("run=a=b") == names.Name("meta", "run", "a=b")


def test_the_digest_tells_no_name(machine_of, url):
    """The owner of the bucket sees which names are equal, and no name."""
    one, other = machine_of("sandbox", "one"), machine_of("sandbox", "two")
    for machine in (one, other):
        saved(machine)
        name_it(machine, names.pair_of("run=123"))
    by_digest = {}
    for entry in entries_of(url):
        by_digest.setdefault(entry.parent.name, set()).add(entry.name.split("-")[1])
        assert entry.stat().st_size == 0 and "sandbox" not in str(entry.relative_to(Path(url.removeprefix("file://")))) and "run" not in entry.name
    assert [*by_digest.values()] == [{one.chain(), other.chain()}] * 2
    assert keys_of(url).digits_of_name("meta", "run", "123") in by_digest


def test_push_and_clone_take_them_as_options(tmp_path, url):
    root, home = tmp_path / "project", tmp_path / "home"
    for place in (root, home):
        place.mkdir()
    made = InProcess(root, home, CASREWIND_REMOTE_KEY=KEY)
    made("remote", "add", url, "--machine", "sandbox-4", code=0)
    (root / "a").write_bytes(b"1")
    pushed = json.loads(made("push", "--as", "base", "--meta", "run=123", "--meta", "branch=main", "--json", code=0).out)
    assert pushed["checkpoints"] == 1
    (root / "a").write_bytes(b"2")
    made("push", code=0)
    for at, options in enumerate((["base"], ["--meta", "run=123"], ["--meta", "branch=main"], ["sandbox-4:prev"])):
        made("clone", url, f"copy{at}", *options, code=0)
        assert (root / f"copy{at}" / "a").read_bytes() == b"1"
    for words in (["clone", url, "no", "base", "--meta", "run=123"], ["push", "--as", "base", "-n"], ["push", "--meta", "run=1", "--background"], ["push", "--as", "a b"]):
        assert made(*words).code == 64, words
    assert "nothing on" in made("clone", url, "no", "--meta", "run=7").err
    assert not (root / "no").exists()


def test_a_clone_of_a_base_among_many_chains_asks_a_server_six_times_at_most(tmp_path, s3, monkeypatch):
    """60 chains: without names it asks once and more for each of them."""
    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    url = s3.bucket()
    machine = Machine.with_remote(tmp_path / "one", url, "sandbox")
    wanted = machine.save({"f": b"base"})
    machine.push()
    name_it(machine, names.base_of("base"))
    for count in range(60):
        machine.save({"f": b"%d" % count})
        with machine.open() as workspace:
            remote = machine.remote(workspace)
            remote.files.begin_chain()
        machine.push(points=[*machine.points().values()][-1:])
    asked = {}
    for at, reference in enumerate(("base", "sandbox")):
        s3.reset()
        made = machine.clone_to(tmp_path / f"clone{at}", reference=reference)
        asked[reference] = s3.counts().requests
        assert reference != "base" or made.cloned.point.id == wanted.id
    s3.reset()
    with monkeypatch.context() as patch:
        patch.setattr(clone, "find_entries", lambda *_: names.Entries(()))
        machine.clone_to(tmp_path / "without", reference=wanted.id)
    asked["without names"] = s3.counts().requests
    print(asked)
    assert sum(asked["base"].values()) <= 6 and sum(asked["without names"].values()) > 60
