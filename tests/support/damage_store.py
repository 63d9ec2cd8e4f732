"""Spoil a real store in every way that has a name here, ask it everything with the real command, and judge the answers.

Runs as a program of its own: `python -m support.damage_store DIRECTORY SPECIFICATION` prints one JSON object. Everything is
imported once; each question is asked in a fork (which may die of it) on a fresh copy of the spoiled store.

The rule. What a store answers is right, or it is refused with one clear line and nothing is changed; every restore that
ends with 0 or 3 leaves in the worktree what the picture of the checkpoint shows, but for what it names as left alone;
nothing dies by a signal, hangs or ends with 70; what repair does not name as lost is there after it.
"""

import contextlib
import io
import json
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import time
import traceback

from support.picture import differences, picture
from support.trees import Dir, Exec, Link, plant

PATIENCE = 60
"""Seconds after which a question counts as one that is never answered."""
REFUSALS = (12, 20)
BUSY, UNKNOWN = 11, 15


class Wrong(Exception):
    """The rule is broken; the message says how."""


# -- asking


def cli(*arguments):
    """Run the command here; (exit code, what it printed, what it complained of)."""
    from casrewind.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(["-C", ROOT, *arguments])
        except SystemExit as exit_:
            code = exit_.code
    return code, out.buffer.getvalue().decode("utf-8", "replace"), err.buffer.getvalue().decode("utf-8", "replace")


def forked(work):
    """(exit status, minus a signal; what `work` returned) of a child process. An exception comes back as Wrong."""
    FORKS.append(0)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE)
        same_names(len(FORKS))
        os.close(reader)
        try:
            answer = work()
        except Wrong as wrong:
            answer = wrong
        except BaseException:
            answer = Wrong(traceback.format_exc())
        with open(writer, "wb") as file:
            pickle.dump(answer, file)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        data = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == 0:
        return code, pickle.loads(data)
    return code, Wrong("never answered" if code == -signal.SIGALRM else f"died of signal {-code}" if code < 0 else f"exit {code}")


def same_names(number):
    """Ids are the same in every run, and others in every child: one that came twice would name two packs."""
    chance = random.Random(number)
    os.urandom = chance.randbytes


def run_json(*arguments):
    """The JSON of a command that must succeed."""
    code, out, err = cli(arguments[0], "--json", *arguments[1:])
    if code != 0:
        raise Wrong(f"{' '.join(arguments)}: exit {code}, {err.strip() or out}")
    return json.loads(out)


class Asked:
    """What was asked of one copy of a spoiled store."""

    def __init__(self):
        self.refused = []  # commands

    def __call__(self, *arguments, also=(), remarks=False):
        """(exit code, JSON or None). Refused or answered: nothing else; with a refusal nothing is changed."""
        before = look()
        name = " ".join(arguments)
        code, out, err = cli(arguments[0], "--json", *arguments[1:])
        allowed = (0, *REFUSALS, *also, *((3,) if remarks else ()))
        if code not in allowed:
            raise Wrong(f"{name}: exit {code}: {err.strip() or out}")
        lines = err.strip().splitlines()
        if code not in (0, 3):
            lines = [line for line in lines if "note: a restore was interrupted" not in line]
            printed = arguments[0] == "verify" and out
            refused = out.startswith('{"format": 1, "error": ') and out.count("\n") <= 1
            if not printed and ((out and not refused) or len(lines) != 1 or not lines[0].startswith("casrewind: ")):
                raise Wrong(f"{name}: exit {code} without one clear line: {out!r} {err!r}")
            if differences(before, look()):
                raise Wrong(f"{name}: exit {code}, and the worktree is changed: {differences(before, look())}")
        if code in REFUSALS:
            self.refused.append(f"{name}: {err.strip()}")
        return code, json.loads(out) if out else None


def look(place=None):
    """A picture. What a killed restore had prepared is left lying when nobody knows any more what it was about: not here."""
    shown = picture(place or ROOT, mtimes=True)
    return {path: entry for path, entry in shown.items() if b".casrewind-tmp-" not in path} if JOURNAL else shown


# -- the scene


_CHANCE = random.Random(5)
_NOISE = _CHANCE.randbytes(1_150_000)

FIRST = {
    ".gitignore": b"*.tmp\n",
    "README": b"read me\n" * 40,
    "src/main.py": b"print(1)\n" * 50,
    "src/deep/er/leaf": b"a leaf\n",
    "src/deep/other": b"another leaf\n",
    "run": Exec(b"#!/bin/sh\n"),
    "link": Link("README"),
    "hollow": Dir(),
    "none": b"",
    "big": _NOISE[:1_100_000],
    "scratch.tmp": b"ignored\n",
}
SECOND = {"src/main.py": b"print(2)\n" * 60, "new/here": b"second\n", "big": _NOISE[:300_000] + b"insert" + _NOISE[300_000:]}
THIRD = {"README": b"read me again\n" * 30, "src/deep/er/leaf": b"a third leaf\n", "third": b"3" * 3000}
FOURTH = {"new/here": b"fourth\n", "fourth/a": b"a" * 5000, "fourth/b": b"b" * 100}
NOW = {"src/main.py": b"print('unsaved')\n", "unsaved": b"never saved\n"}


class Scene:
    """Where things are, and what each checkpoint looked like."""

    store: str
    other: str
    pictures: dict
    named: dict


def step(tree, gone=()):
    plant(ROOT, tree)
    for name in gone:
        shutil.rmtree(f"{ROOT}/{name}") if os.path.isdir(f"{ROOT}/{name}") else os.unlink(f"{ROOT}/{name}")


def build_other():
    """Another project's store, with an interrupted restore: files of the same kind."""
    plant(ROOT, {"f": b"other\n" * 50, "g/h": b"more\n" * 20})
    for number in range(6):
        plant(ROOT, {"f": b"other %d\n" % number * 50})
        run_json("save", "-m", f"other {number}")
    run_json("restore", "other 2", "--yes")
    plant(ROOT, {"f": b"other unsaved\n"})
    interrupt("other 0", 1)
    [store] = stores()
    return store


def build():
    """The store that is spoiled. {what the tests have to know}."""
    pictures, stash = {}, f"{BASE}/older"
    os.makedirs(stash)
    plant(ROOT, FIRST)
    first = run_json("save", "-m", "first", "--pin")["checkpoint"]
    pictures[first] = look()
    step(SECOND, ["none"])
    second = run_json("save", "-m", "second")["checkpoint"]
    pictures[second] = look()
    [store] = stores()
    shutil.copytree(store, f"{stash}/store")
    plant(ROOT, {"forgotten": _CHANCE.randbytes(30_000)})
    run_json("save")
    step({}, ["forgotten"])
    run_json("gc", "--max-count", "1")
    step(THIRD, ["new", "run"])
    third = run_json("save")["checkpoint"]
    pictures[third] = look()
    before = look()
    pictures[run_json("restore", first, "--yes")["safety"]] = before
    run_json("undo", "--yes")
    run_json("pin", third, "pinned later")
    step(FOURTH)
    fourth = run_json("save")["checkpoint"]
    pictures[fourth] = look()
    make_garbage(store)
    plant(ROOT, {"src/main.py": b"print('before')\n"})
    before = look()
    pictures[run_json("restore", second, "--yes")["safety"]] = before
    plant(ROOT, NOW)
    listed = {point["id"] for point in run_json("list", "--all")["checkpoints"]}
    if not listed >= set(pictures):
        raise Wrong(f"lost while building: {set(pictures) - listed}")
    # a safety checkpoint of a state that a picture was taken of is another one of that picture
    return {"store": store, "pictures": pictures, "listed": sorted(listed), "first": first, "second": second, "third": third}


def make_garbage(store):
    """A pack that nothing has need of."""
    from casrewind.store.store import Store

    with Store(store) as opened, opened.writing() as session:
        for number in range(4):
            session.put_file(b"garbage %d " % number * 100)
        before = set(os.listdir(f"{store}/packs"))
        opened.add_blobs(session)
    [name] = set(os.listdir(f"{store}/packs")) - before
    os.rename(f"{store}/packs/{name}", f"{store}/packs/{'0' * 20}.pack")  # so that it is known as the garbage
    shutil.rmtree(f"{store}/index")
    run_json("list")


def stores():
    place = f"{HOME}/data/stores"
    return [os.path.join(place, name) for name in os.listdir(place)] if os.path.isdir(place) else []


def interrupt(reference, changes):
    """Kill a restore after that many changes to the worktree: its journal stays."""
    from casrewind.worktree import safe_rename

    def dying(real):
        def work(*arguments):
            done = real(*arguments)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return work

    def work():
        same_names(changes + 10**6)
        safe_rename.exchange_names, safe_rename.rename_without_replacing = dying(safe_rename.exchange_names), dying(safe_rename.rename_without_replacing)
        cli("restore", reference, "--yes")

    left = [changes]
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    os.waitpid(pid, 0)
    [store] = stores()
    if len(os.listdir(f"{store}/journals")) != 1:
        raise Wrong("the restore was not interrupted in its middle")


# -- copies


def keep_copy(name):
    """Keep worktree and home under a name."""
    for part in ("w", "h"):
        shutil.rmtree(f"{BASE}/kept/{name}/{part}", ignore_errors=True)
        shutil.copytree(f"{BASE}/{part}", f"{BASE}/kept/{name}/{part}", symlinks=True)


def restore_copy(name):
    for part in ("w", "h"):
        shutil.rmtree(f"{BASE}/{part}", ignore_errors=True)
        shutil.copytree(f"{BASE}/kept/{name}/{part}", f"{BASE}/{part}", symlinks=True)


# -- spoiling


def flip_bits(path, at, mask, *, unnoticed=False):
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ mask]))
    if unnoticed:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def zero_bytes(path, at, length):
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes(max(0, min(length, status.st_size - at))))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def damage(case):
    """Do to the store what a case says: [verb, file below the store, ...]."""
    store = SCENE["store"]
    verb, name, *how = case
    path = os.path.join(store, name)
    if verb == "delete":
        os.unlink(path)
    elif verb == "truncate":
        os.truncate(path, how[0])
    elif verb == "flip":
        flip_bits(path, how[0], how[1], unnoticed=True)
    elif verb == "zero":
        zero_bytes(path, *how)
    elif verb == "exchange":
        other = os.path.join(store, how[0])
        os.rename(path, path + "~")
        os.rename(other, path)
        os.rename(path + "~", other)
    elif verb == "replace":  # by a file or directory of another store, or of this one as it was once
        source = how[0]
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        shutil.copytree(source, path) if os.path.isdir(source) else shutil.copy2(source, path)
        if how[1:] == ["note too"]:
            shutil.copy2(os.path.join(os.path.dirname(source), "written"), os.path.join(os.path.dirname(path), "written"))
        if how[1:] == ["index too"]:
            shutil.rmtree(f"{store}/index")
            shutil.copytree(os.path.join(os.path.dirname(source), "index"), f"{store}/index")
    else:
        raise AssertionError(verb)


def record_starts(path, target):
    """Where records start in a pack or in the ledger, as their magic tells; the size last."""
    with open(path, "rb") as file:
        data = file.read()
    magic = {"pack": b"CRB1", "ledger": b"CRE1"}.get(target)
    found, at = [], data.find(magic) if magic else -1
    while at >= 0:
        found.append(at)
        at = data.find(magic, at + 1)
    if target == "index":
        found = list(range(0, len(data), 4096))
    return [*found, len(data)]


def files():
    """{target: files below the store}."""
    store = SCENE["store"]
    packs = sorted(f"packs/{name}" for name in os.listdir(f"{store}/packs"))
    found = {"pack": packs, "ledger": ["ledger"], "index": ["index/data.mdb"], "note": ["index/written"], "format": ["FORMAT"]}
    if JOURNAL:
        [name] = os.listdir(f"{store}/journals")
        found = {"journal": [f"journals/{name}"]}
    return found


def places_to_flip(path, target, chance, most):
    """Offsets: in the head of every record and in its body, in all of a small file, in used pages of the index."""
    size = os.path.getsize(path)
    if size <= most:
        return list(range(size))
    found = set(range(min(8, size)))
    starts = record_starts(path, target)
    for start, end in zip(starts, starts[1:]):
        found |= {start + chance.randrange(min(24, end - start)), start + chance.randrange(end - start), end - 1}
    if target == "index":
        with open(path, "rb") as file:
            data = file.read()
        used = [at for at in range(size) if data[at]]
        found = {*range(0, 160, 12), *range(4096, 4256, 12), *chance.sample(used, min(most, len(used)))}
    if target == "journal":
        found = chance.sample(range(size), most)
    found = sorted(at for at in found if at < size)
    return chance.sample(found, most) if len(found) > most else found


def cases(chance, *, thorough):
    """Every case but flips by the thousand."""
    store, found = SCENE["store"], []
    for target, names in files().items():
        for number, name in enumerate(names):
            path = os.path.join(store, name)
            size = os.path.getsize(path)
            some = record_starts(path, target)
            found.append([target, "delete", name])
            lengths = {0, 1, size // 2, size - 1, *chance.sample(some, min(len(some), 1 if target == "pack" else 4))}
            lengths = sorted(length for length in lengths if 0 <= length < size)
            if target == "pack" and not thorough:  # there are many: each is cut in two of the ways
                lengths = [lengths[(2 * number + n) % len(lengths)] for n in range(2)]
            found += [[target, "truncate", name, length] for length in lengths]
            if target != "pack" or number % 2 or thorough:
                found.append([target, "zero", name, 0, size])
            pages = sorted({0, size // 2 // 4096 * 4096, max(0, size - 1) // 4096 * 4096})
            found += [[target, "zero", name, page, 4096] for page in pages if size > 4096]
            most = {"pack": 12 if thorough else 3, "ledger": 16, "index": 20, "note": 4, "format": 5, "journal": 10}[target]
            for at in places_to_flip(path, target, chance, most):
                found.append([target, "flip", name, at, 1 << chance.randrange(8)])
    return found + swaps()


def swaps():
    """Files in each other's place, of another store, of this one as it was."""
    store, other, older = SCENE["store"], SCENE["other"], f"{BASE}/older/store"
    names = files()
    if JOURNAL:
        [journal] = names["journal"]
        [foreign] = os.listdir(f"{other}/journals")
        return [
            ["journal", "replace", journal, f"{other}/journals/{foreign}"],
            ["journal", "replace", journal, f"{BASE}/older/journal"],
        ]
    packs = sorted(names["pack"], key=lambda name: os.path.getsize(os.path.join(store, name)))
    foreign = sorted(f"{other}/packs/{name}" for name in os.listdir(f"{other}/packs"))
    found = [["pack", "exchange", one, two] for one, two in zip(packs, packs[1:])]
    found += [["pack", "replace", name, foreign[0]] for name in packs[-3:]]
    found += [["pack", "replace", "packs", f"{older}/packs"], ["pack", "replace", "packs", f"{older}/packs", "index too"]]
    for source in (other, older):
        found += [
            ["ledger", "replace", "ledger", f"{source}/ledger"],
            ["index", "replace", "index/data.mdb", f"{source}/index/data.mdb"],
            ["index", "replace", "index/data.mdb", f"{source}/index/data.mdb", "note too"],
            ["note", "replace", "index/written", f"{source}/index/written"],
            ["format", "replace", "FORMAT", f"{source}/FORMAT"],
        ]
    return found


def many_flips(chance, counts):
    """Flips by the thousand: {target: how many}."""
    found = []
    for target, names in files().items():
        for name in names:
            path = os.path.join(SCENE["store"], name)
            most = counts.get(target, 0) // len(names)
            places = places_to_flip(path, target, chance, most)
            spare = os.path.getsize(path) if places else 0
            places += [chance.randrange(spare) for _ in range(most - len(places)) if spare]
            found += [[target, "flip", name, at, 1 << chance.randrange(8)] for at in places]
    return found


# -- judging


def expected(identity):
    return SCENE["pictures"][identity]


def skipped_paths(report):
    return [os.fsencode(item["path"]) for item in report["skipped"]]


def is_below_named(path, named):
    return any(path == place or path.startswith(place + b"/") for place in named)


def judge_worktree(name, code, report, identity, before):
    """After a restore into the worktree that ended with 0 or 3."""
    named = skipped_paths(report)
    if code == 3 and not named:
        raise Wrong(f"{name}: exit 3 and names nothing")
    wrong = differences(look(), expected(identity))
    for path, (here, should) in wrong.items():
        if b"." in named and should is None and here == before.get(path):
            continue  # what it speaks for is not known: nothing was deleted
        if not is_below_named(path, named):
            raise Wrong(f"{name}: exit {code}, and {path} is {here} instead of {should}; left alone: {named}")
        if here != before.get(path):
            raise Wrong(f"{name}: {path} is said to be left alone and was {before.get(path)}, now {here}")


def without_ignored(shown):
    return {path: entry for path, entry in shown.items() if not path.endswith(b".tmp")}


def restore_elsewhere(ask, identity, *, skip=False, named=()):
    """True when a checkpoint could be written elsewhere, exactly but for what is `named`."""
    place = f"{BASE}/out"
    shutil.rmtree(place, ignore_errors=True)
    code, report = ask("restore", identity, "--to", place, *(["--skip-damaged"] if skip else []), remarks=True)
    if code not in (0, 3):
        if os.path.isdir(place) and os.listdir(place):
            raise Wrong(f"restore --to of {identity}: refused, and something was written")
        return False
    wrong = differences(look(place), without_ignored(expected(identity)))
    spared = [*skipped_paths(report), *named]
    bad = {path: sides for path, sides in wrong.items() if sides[0] is not None or not is_below_named(path, spared)}
    if bad:
        raise Wrong(f"restore --to of {identity}: exit {code}, wrong: {bad}; left out: {spared}")
    return code == 0


def judge_list(ask):
    code, found = ask("list", "--all")
    if code == 0:
        listed = sorted(point["id"] for point in found["checkpoints"])
        if not set(listed) >= set(SCENE["listed"]):
            raise Wrong(f"list: lost {set(SCENE['listed']) - set(listed)}")
    return code == 0


# -- questions, each on a fresh copy


def ask_what_only_looks():
    """Everything that only looks."""
    ask = Asked()
    judge_list(ask)
    for identity in (SCENE["first"], SCENE["third"]):
        code, found = ask("show", identity)
        if code == 0:
            entries = {item["path"]: item for item in found["entries"]}
            wanted = {os.fsdecode(path): entry for path, entry in without_ignored(expected(identity)).items()}
            if entries.keys() != wanted.keys():
                raise Wrong(f"show {identity}: {entries.keys() ^ wanted.keys()}")
            for path, entry in wanted.items():
                if entry[0] == "link" and os.fsencode(entries[path]["target"]) != entry[1]:
                    raise Wrong(f"show {identity}: {path}")
                if entry[0] == "file" and (int(entries[path]["mode"], 8), entries[path]["mtime_ns"]) != (entry[1], entry[3]):
                    raise Wrong(f"show {identity}: {path} is {entries[path]}, not {entry}")
    one, two = SCENE["first"], SCENE["third"]
    code, found = ask("diff", one, two)
    if code == 0:
        wrong = {os.fsdecode(path) for path in differences(without_ignored(picture_without_times(one)), without_ignored(picture_without_times(two)))}
        if {item["path"] for item in found["changes"]} != wrong:
            raise Wrong(f"diff: {found['changes']} instead of {wrong}")
    ask("diff", one)
    ask("status")
    return ask.refused


def picture_without_times(identity):
    """A picture without times."""
    return {path: entry[:3] for path, entry in expected(identity).items()}


def ask_restores():
    """Restores into the worktree, one after the other, then back."""
    ask = Asked()
    also = (BUSY,) if JOURNAL else ()
    back = False
    for identity in SCENE["pictures"]:
        before = look()
        code, report = ask("restore", identity, "--yes", remarks=True, also=also)
        if code in (0, 3):
            judge_worktree(f"restore {identity}", code, report, identity, before)
            if code == 0 and report["changes"] and not back:
                _there_and_back(ask, identity, before)
                back = True
    return ask.refused


def _there_and_back(ask, identity, before):
    """undo and redo right after a restore."""
    after = look()
    for command, wanted in (("undo", before), ("redo", after)):
        code, _ = ask(command, "--yes", remarks=True)
        if code not in (0, 3):
            return
        if differences(look(), wanted):
            raise Wrong(f"{command} after restore {identity}: {differences(look(), wanted)}")


def ask_elsewhere():
    """Every checkpoint into another directory: which can be had."""
    ask = Asked()
    return ask.refused, [identity for identity in SCENE["pictures"] if restore_elsewhere(ask, identity)]


def ask_to_undo():
    """undo before anything else: it must bring back what stood before the last restore, but for what was edited since."""
    ask = Asked()
    before = look()
    code, report = ask("undo", "--yes", remarks=True, also=(BUSY,) if JOURNAL else (UNKNOWN,) if DOUBT else ())
    if code in (0, 3):
        for path, (was, now) in differences(before, look()).items():
            if now != SCENE["before"].get(path):
                raise Wrong(f"undo made {path} {now} out of {was}")
    return ask.refused


def ask_to_save():
    """save before anything else: what it acknowledges is there."""
    ask = Asked()
    code, saved = ask("save", "-m", "after the damage", remarks=True)
    if code in (0, 3):
        if not judge_list(ask):
            raise Wrong("list is refused after a save that was not")
        SCENE["pictures"][saved["checkpoint"]] = look()
        restore_elsewhere(ask, saved["checkpoint"])
    return ask.refused


def ask_gc():
    """gc before anything else; which checkpoints can be had afterwards."""
    ask = Asked()
    code, _ = ask("gc")
    return ask.refused, code, [identity for identity in SCENE["pictures"] if restore_elsewhere(ask, identity)]


def ask_to_verify():
    """verify and verify --quick."""
    ask = Asked()
    code, found = ask("verify")
    ask("verify", "--quick")
    return ask.refused, code, (found or {}).get("problems", [])


def ask_continue_and_abort():
    """--continue in one fresh copy, --abort in another: to the target or to the state before, or refused."""
    ask = Asked()
    identity = SCENE["second"] if "open" not in SCENE else SCENE["open"]
    known = [SCENE["open before"], *SCENE["pictures"].values()]
    for what in ("--continue", "--abort"):
        restore_copy("spoiled")
        before = look()
        code, report = ask("restore", what, remarks=True, also=(UNKNOWN,))
        if code not in (0, 3):
            continue
        wanted = expected(identity) if what == "--continue" else SCENE["open before"]
        wrong = differences(look(), wanted)
        named = skipped_paths(report)
        unnamed = {path for path in wrong if not is_below_named(path, named)}
        if unnamed and not DOUBT:
            raise Wrong(f"{what}: {wrong}")
        for path, (here, _) in wrong.items():
            if here != before.get(path) and all(here != shown.get(path) for shown in known):
                raise Wrong(f"{what}: {path} is {here}, which it was never")
    return ask.refused


def ask_to_repair():
    """verify --repair, and everything again. How it stands afterwards."""
    ask = Asked()
    code, found = ask("verify", "--repair")
    if code == 12:
        raise Wrong("verify --repair: refused with 12")
    named = {}
    for problem in found["problems"]:
        for place in problem["affects"]:
            named.setdefault(place["checkpoint"], set()).add(os.fsencode(place["path"]))
    if (code == 20) != bool(found["problems"]):
        raise Wrong(f"verify --repair: exit {code}, {found['problems']}")
    shown = store_look()
    code_again, again = ask("verify", "--repair")
    if again["repaired"] or again["problems"] != found["problems"] or code_again != code:
        raise Wrong(f"a second repair finds something to do: {again['repaired']}, {again['problems']} after {found['problems']}")
    if differences(shown, store_look()):
        raise Wrong(f"a second repair changes the store: {differences(shown, store_look())}")
    if not judge_list(ask):
        raise Wrong("list is refused after a repair")
    had = _judge_repaired(named)
    if not JOURNAL or any("journal" in line for line in found["repaired"]):
        _life_goes_on(named, had)
    problems = sorted(problem["kind"] for problem in found["problems"])
    return ask.refused, found["repaired"], problems, named


def _judge_repaired(named):
    """Every checkpoint and path that repair does not name can be had; the checkpoints that can be had whole."""
    ask, had = Asked(), []
    for identity in SCENE["pictures"]:
        lost = named.get(identity, set())
        paths = [path for path in lost if path]
        whole = restore_elsewhere(ask, identity)
        had += [identity] if whole else []
        if whole and paths:
            raise Wrong(f"repair names {lost} of {identity}, which can be had")
        if not whole and not lost:
            raise Wrong(f"repair does not name {identity}, which cannot be had")
        if not whole and not restore_elsewhere(ask, identity, skip=True, named=lost) and b"" not in lost:
            place = f"{BASE}/out"
            if not os.path.isdir(place) or not os.listdir(place):
                raise Wrong(f"what repair does not name of {identity} cannot be had")
    return had


def _life_goes_on(named, had):
    """Restores with --skip-damaged, undo, save, gc."""
    ask = Asked()
    identity = SCENE["third"]
    before = look()
    code, report = ask("restore", identity, "--yes", "--skip-damaged", remarks=True)
    if code not in (0, 3) and b"" not in named.get(identity, ()):
        raise Wrong(f"restore --skip-damaged after repair: {ask.refused}")
    if code in (0, 3):
        judge_worktree("restore --skip-damaged", code, report, identity, before)
        code, report = ask("undo", "--yes", remarks=True)
        if code not in (0, 3) or differences(look(), before):
            raise Wrong(f"undo of a restore that was made after the repair: {code}, {differences(look(), before)}")
    code, saved = ask("save", "-m", "after the repair", remarks=True)
    if code != 0:
        raise Wrong(f"save after repair: exit {code}: {ask.refused}")
    SCENE["pictures"][saved["checkpoint"]] = look()
    if not restore_elsewhere(ask, saved["checkpoint"]):
        raise Wrong("what was saved after the repair cannot be had")
    code, _ = ask("gc")
    if code != 0:
        raise Wrong(f"gc after repair: exit {code}: {ask.refused}")
    for identity in (*had[-3:], saved["checkpoint"]):
        if not restore_elsewhere(ask, identity):
            raise Wrong(f"gc after repair takes {identity}")


def store_look():
    return picture(SCENE["store"], mtimes=True, skip={b"index", b"locks", b"tmp"})


QUESTIONS = {
    "look": ask_what_only_looks,
    "travel": ask_restores,
    "elsewhere": ask_elsewhere,
    "undo": ask_to_undo,
    "save": ask_to_save,
    "collect": ask_gc,
    "verify": ask_to_verify,
    "resume": ask_continue_and_abort,
    "repair": ask_to_repair,
}


def examine(case, questions):
    """Ask the questions about one case; (its kind, what was refused, how repair went, what is wrong)."""
    restore_copy("scene")
    damage(case[1:])
    keep_copy("spoiled")
    answers, wrong, refused = {}, [], []
    for name in questions:
        if name == "resume" and not JOURNAL:
            continue
        restore_copy("spoiled")
        begin = time.monotonic()
        code, answer = forked(QUESTIONS[name])
        TIMES[name] = TIMES.get(name, 0) + time.monotonic() - begin
        if isinstance(answer, Wrong):
            wrong.append(f"{name}: {answer}")
            continue
        answers[name] = answer
        refused += answer[0] if isinstance(answer, tuple) else answer
    wrong += contradictions(answers)
    return {"case": case, "refused": refused, "repair": answers.get("repair"), "wrong": wrong}


def contradictions(answers):
    """What fits not together in the answers that were given of the same spoiled store."""
    wrong = []
    if "elsewhere" in answers:
        had = set(answers["elsewhere"][1])
        if "collect" in answers:
            _, code, after = answers["collect"]
            if had - set(after):
                wrong.append(f"gc (exit {code}) took {had - set(after)}")
        if "verify" in answers:
            _, code, problems = answers["verify"]
            if code == 0 and had != set(SCENE["pictures"]):
                wrong.append(f"verify says sound, and {set(SCENE['pictures']) - had} cannot be had")
        if "repair" in answers:
            lost = {identity for identity in had if any(answers["repair"][3].get(identity, ()))}
            if lost:
                wrong.append(f"repair lost {lost}, which could be had before")
    return wrong


def count_reports(reports):
    """Counts, and everything that is wrong."""
    found = {"cases": len(reports), "detected": 0, "harmless": 0, "repaired whole": 0, "repaired with named losses": 0}
    kinds = {}
    for report in reports:
        found["detected" if report["refused"] else "harmless"] += 1
        if report["repair"] is not None:
            _, done, problems, named = report["repair"]
            if problems:
                found["repaired with named losses"] += 1
            elif done or report["refused"]:
                found["repaired whole"] += 1
        kind = f"{report['case'][0]} {report['case'][1]}"
        kinds[kind] = kinds.get(kind, 0) + 1
    found["kinds"] = kinds
    found["wrong"] = [[report["case"], wrong] for report in reports for wrong in report["wrong"]]
    return found


def prepare():
    """Build both stores; the scene as it is spoiled is kept."""
    global SCENE, ROOT
    same_names(0)
    mine, ROOT = ROOT, f"{BASE}/w2/else"
    os.makedirs(ROOT)
    code, other = forked(build_other)
    if isinstance(other, Wrong):
        raise other
    ROOT = mine
    os.rename(other, f"{BASE}/other")
    os.makedirs(ROOT)
    code, SCENE = forked(build)
    if isinstance(SCENE, Wrong):
        raise SCENE
    SCENE["other"] = f"{BASE}/other"
    keep_copy("scene")
    for warming in (["list"], ["verify"], ["diff", "last"], ["restore", "last", "--yes"], ["save"], ["gc"]):
        run_json(*warming)  # what a command imports only when it has need of it is not imported again in every child
    restore_copy("scene")
    forked(lambda: run_json("undo", "--yes"))
    SCENE["before"] = {**look()}
    restore_copy("scene")
    if JOURNAL:
        prepare_journal()


def prepare_journal():
    """A restore that was killed, and the journal of an earlier one that was killed, too."""
    interrupt(SCENE["third"], 1)
    [name] = os.listdir(f"{SCENE['store']}/journals")
    shutil.copy2(f"{SCENE['store']}/journals/{name}", f"{BASE}/older/journal")
    forked(lambda: cli("restore", "--abort"))
    SCENE["open"] = SCENE["first"]
    SCENE["open before"] = look()
    interrupt(SCENE["open"], 2)
    SCENE["halfway"] = look()
    if not differences(SCENE["halfway"], SCENE["open before"]):
        raise Wrong("the restore was not interrupted in its middle")
    code, listed = forked(lambda: run_json("list", "--all"))
    SCENE["listed"] = sorted(point["id"] for point in listed["checkpoints"])
    keep_copy("scene")


def main():
    global JOURNAL, DOUBT
    asked = json.loads(sys.argv[2])
    JOURNAL = asked.get("journal", False)
    started = time.monotonic()
    prepare()
    chance = random.Random(asked.get("seed", 1))
    everything = many_flips(chance, asked["flips"]) if "flips" in asked else cases(chance, thorough=asked.get("thorough", False))
    reports = []
    names = [name for name in QUESTIONS if name in asked.get("questions", QUESTIONS)]
    seen = {}  # (target, verb): how many. A process does its share of every kind: its store may differ from the other's
    for case in everything:
        kind = tuple(case[:2])
        seen[kind] = seen.get(kind, -1) + 1
        if seen[kind] % asked["of"] not in asked["parts"] or (asked.get("only") and asked["only"] not in " ".join(map(str, case))):
            continue
        DOUBT = case[1] == "replace" or case[1] == "delete"
        some = names
        if "rotate" in asked:  # a few questions per case, other ones each time
            turn = asked.get("first", 0) + len(reports) * asked["rotate"]
            some = [names[(turn + n) % len(names)] for n in range(asked["rotate"])]
        reports.append(examine(case, some))
    result = count_reports(reports)
    result["seconds"] = round(time.monotonic() - started, 1)
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    result["processor seconds"] = round(sum(each.ru_utime + each.ru_stime for each in spent), 1)
    if asked.get("verbose"):
        for report in reports:
            print(report["case"], "refused" if report["refused"] else "", report["repair"] and report["repair"][1:], file=sys.stderr)
        print({name: round(seconds, 2) for name, seconds in TIMES.items()}, file=sys.stderr)
    print(json.dumps(result))


SCENE, JOURNAL, DOUBT = {}, False, False
TIMES, FORKS = {}, []

if __name__ == "__main__":
    import importlib
    import pkgutil
    import tempfile

    import casrewind

    os.umask(0o022)
    BASE = os.path.realpath(sys.argv[1])
    ROOT, HOME = f"{BASE}/w/project", f"{BASE}/h"
    os.makedirs(f"{BASE}/t", exist_ok=True)
    os.makedirs(HOME, exist_ok=True)
    tempfile.tempdir = f"{BASE}/t"
    os.environ.update(HOME=HOME, CASREWIND_HOME=f"{HOME}/data")
    for module in pkgutil.walk_packages(casrewind.__path__, "casrewind."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    main()
