"""Do a command once for every disk-changing call that it makes, and let something go wrong at that call.

Runs as a program of its own, with the fault shim loaded: `python -m support.fault_sweep` reads lines [directory, specification]
and prints a JSON object for each. Everything is imported once; each line is a fork, and so is each point. A point is
looked at in two copies of what the fault left behind: one goes forward (continue), one goes back (abort). The operations
of upkeep, and what has to be true after them, are in support/fault_sweep_maintenance.py.
"""

import contextlib
import io
import json
import os
import re
import random
import shutil
import signal
import sys
import traceback

from support.picture import differences, picture
from support.shim import FAIL, HALF, KILL, TEAR, Shim
from support.store_checks import leftovers, read_everything
from support.two_states import AFTER, NOW, THEN, build, copy

OPERATIONS = ("first save", "save", "restore", "undo", "redo", "continue", "abort", "rebuild")
REVERSE = {"restore": "undo", "revert": "undo", "keep edits": "undo", "take": "undo", "undo": "redo", "redo": "undo", "continue": "undo"}
ACTS = {"kill": KILL, "fail": FAIL, "half": HALF, "tear": TEAR}


def cli(*arguments, root=None):
    """Run the command line here; (exit code, what it printed, what it complained of)."""
    from casrewind.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(["-C", root or ROOT, *arguments])
        except SystemExit as exit_:
            code = exit_.code
    return code, out.buffer.getvalue().decode("utf-8", "replace"), err.buffer.getvalue().decode("utf-8", "replace")


def run_json(code, *arguments):
    """The JSON that a command printed that must exit with `code`."""
    got, out, err = cli(arguments[0], "--json", *arguments[1:])
    assert got == code, f"{' '.join(arguments)}: exit {got}, {err.strip() or out}"
    return json.loads(out) if out else {}


def forked(work):
    """(wait status, what `work` returned) of a child process; an exception comes back as {"raised": text}."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 0
        try:
            os.close(reader)
            answer = work()
        except BaseException:
            SHIM.rest()
            answer, status = {"raised": traceback.format_exc()}, 1
        with open(writer, "wb") as file:
            file.write(json.dumps(answer).encode())
        os._exit(status)
    os.close(writer)
    with open(reader, "rb") as file:
        data = file.read()
    return os.waitpid(pid, 0)[1], json.loads(data) if data else None


def repeat_names(seed=7):
    """Ids and temporary names are the same every time: else the index has other pages, and now and then a call more."""
    chance = random.Random(seed)
    os.urandom = chance.randbytes


def run_with_fault(arguments, at, act, error=0, *, forever=False, seed=7):
    """Run the command line with something going wrong at call `at`; what came of it. Of each `seed`, names of its own."""
    repeat_names(seed)
    SHIM.arm(at, act, error, forever=forever)
    code, out, err = cli(*arguments)
    counted, fired = SHIM.counted, SHIM.fired
    SHIM.rest()
    return {"code": code, "out": out, "err": err, "counted": counted, "fired": fired}


def keep_copy(name):
    for part in ("w", "h"):
        copy(f"{BASE}/{part}", f"{BASE}/stash/{name}/{part}")


def restore_copy(name):
    for part in ("w", "h"):
        copy(f"{BASE}/stash/{name}/{part}", f"{BASE}/{part}")


def project_picture():
    return picture(ROOT, mtimes=True)


class Case:
    """One command with what stands before it and what it may make of that."""

    code, is_open = 0, False  # how it ends when nothing goes wrong: its exit code, and whether a restore is open then
    is_killed = True  # False where calls fail: on a full disk an abort goes on without its record

    def __init__(self, operation):
        """Prepare; the result is stashed under the operation's name."""
        self.operation, self.acknowledged, self.target = operation, [], None
        self.wanted = "old" if operation in ("save", "first save", "abort", "rebuild") else "new"
        build(ROOT, NOW)
        now = project_picture()
        self.old, self.new = now, now
        _empty(HOME)
        self.arguments = ("save", "-m", "now")
        if operation != "first save":
            self._prepare(operation, now, AFTER_PICTURE)
        keep_copy(operation)

    def _prepare(self, operation, now, after):
        build(ROOT, THEN)
        self.target = run_json(0, "save", "-m", "then")["checkpoint"]
        build(ROOT, NOW)
        if operation not in ("save", "rebuild"):
            self.new, self.arguments = after, ("restore", self.target, "--yes")
        if operation in ("undo", "redo"):
            run_json(0, *self.arguments)
            assert project_picture() == after, differences(project_picture(), after)
            self.old, self.new, self.arguments = after, now, ("undo", "--yes")
        if operation == "redo":
            run_json(0, *self.arguments)
            assert project_picture() == now, differences(project_picture(), now)
            self.old, self.new, self.arguments = now, after, ("redo", "--yes")
        if operation in ("continue", "abort"):
            self._interrupt()
            self.arguments = ("restore", "--" + operation)
        self.acknowledged = [point["id"] for point in run_json(0, "list", "--all")["checkpoints"]]
        if operation == "rebuild":
            self.arguments = ("list",)
            [index] = [os.path.join(place, "index") for place, names, _ in os.walk(HOME) if "index" in names]
            shutil.rmtree(index)

    def _interrupt(self):
        """Kill a restore somewhere in the middle of its changes to the worktree."""
        keep_copy("before the cut")
        status, total = forked(lambda: self.run(0, 0, seed=8)["counted"])  # what ends it makes names, too
        assert status == 0, total
        late = total * 6 // 7 if self.operation == "abort" else total * 2 // 3  # much to take back, much to do
        for at in sorted(range(1, total + 1), key=lambda at: abs(at - late)):
            restore_copy("before the cut")
            forked(lambda at=at: self.run(at, KILL, seed=8))
            if project_picture() not in (self.old, self.new) and leftovers(ROOT):
                return
        raise AssertionError("a restore cannot be interrupted in its middle")

    def run(self, at, act, error=0, *, forever=False, seed=7):
        """In a child: the command, with something going wrong at call `at`."""
        return run_with_fault(self.arguments, at, act, error, forever=forever, seed=seed)

    # -- what is left afterwards, seen by a fresh process

    def check(self, *, thorough, back):
        """The next commands work without help and everything acknowledged is there; the worktree is as before, or as it
        should become (and then it can be undone), or a restore is open and leads to either, as asked. What was left is
        in the stash."""
        journal = self._store_is_whole()
        if thorough:
            self._everything_reads()
        if journal:
            if thorough:
                run_json(0, "save")
                assert cli("restore", self.target or "last", "--yes")[0] == 11
            run_json(0, "restore", "--continue")
        state = self._state()
        assert state == "new" if journal else state in ("old", "new"), self._where()
        if self.operation == "abort" and self.is_killed:
            self._says_how_it_ended(state)
        assert not leftovers(ROOT), leftovers(ROOT)
        reverse = REVERSE.get(self.operation)
        if reverse is not None and state == "new" and (thorough or not journal):
            run_json(0, reverse, "--yes")
            assert self._state() == "old", f"{reverse} after it: {self._where()}"
        if thorough:
            self._life_goes_on()
        self._everything_reads()
        if journal and back:
            restore_copy("left")
            run_json(0, "restore", "--abort")
            assert self._state() == "old", self._where()
            assert not leftovers(ROOT), leftovers(ROOT)
            self._everything_reads()
            if self.operation == "abort" and self.is_killed:
                self._says_how_it_ended("old")
        return {"journal": journal, "state": state}

    def names_lost_rights(self, err):
        """True if a file's ACL could not be set. Then it is its owner's alone, named, and the only thing that is not as it should be."""
        names = re.findall(r"^  note: (.+): its ACL cannot be set .*: restored with mode 0600$", err, re.MULTILINE)
        now = project_picture()
        for name in names:
            assert now[name.encode()][1] == 0o600, name
            now[name.encode()] = self.new[name.encode()]
        assert not names or now == self.new, differences(now, self.new)
        return bool(names)

    def _says_how_it_ended(self, state):
        """A restore that was taken back has one row that says so, however often that was killed, too.
        The kill may have met the end of it: then it was finished afterwards, and the list has both."""
        kinds = [row["row"] for row in run_json(0, "list")["rows"]]
        assert kinds.count("aborted") == 1 if state == "old" else kinds.count("aborted") <= 1 and "restored" in kinds, kinds

    def _state(self):
        here = project_picture()
        return "old" if here == self.old else "new" if here == self.new else "neither"

    def _where(self):
        return f"to old: {differences(project_picture(), self.old)}; to new: {differences(project_picture(), self.new)}"

    def _store_is_whole(self):
        """True when a restore is open."""
        if self.operation == "first save" and cli("list")[0] == 10:
            return False  # nothing was acknowledged; the next save makes the store
        journal = run_json(0, "status")["journal"]
        listed = {point["id"] for point in run_json(0, "list", "--all")["checkpoints"]}
        assert listed >= set(self.acknowledged), f"lost: {set(self.acknowledged) - listed}"
        return journal is not None

    def _everything_reads(self):
        from casrewind.settings import from_environment
        from casrewind.workspace import Workspace

        if self.operation == "first save" and cli("list")[0] == 10:
            return
        with Workspace(ROOT, from_environment()[0], create=False) as workspace:
            read_everything(workspace)

    def _life_goes_on(self):
        """One more round of save, restore and undo."""
        with open(f"{ROOT}/later.txt", "w") as file:
            file.write("written after the fault\n")
        before = project_picture()
        if self.target is None:
            target = run_json(0, "save", "-m", "again")["checkpoint"]
            expected = before
            os.unlink(f"{ROOT}/same.txt")
            before = project_picture()
        else:
            target = self.target
            # where the rules of THEN are in force already, the save captures build.log, which THEN would have held
            is_then = before[b".gitignore"] == AFTER_PICTURE[b".gitignore"]
            expected = {path: what for path, what in AFTER_PICTURE.items() if not (is_then and path == b"build.log")}
        run_json(0, "save")
        run_json(0, "restore", target, "--yes")
        assert project_picture() == expected, differences(project_picture(), expected)
        run_json(0, "undo", "--yes")
        assert project_picture() == before, differences(project_picture(), before)


def _empty(directory):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)


def sweep(case, act, *, error=0, forever=False, stride=1, offset=0, thorough_every=1, back_every=1):
    """Every `stride`-th point of a case: counts, and what went wrong where."""
    case.is_killed = act in ("kill", "tear")
    restore_copy(case.operation)
    status, clean = forked(lambda: case.run(0, 0))
    assert status == 0 and clean["code"] == case.code and clean["err"] == "", clean
    total = clean["counted"]
    points = list(range(1 + offset, total + 1, stride))
    report = {"counted": total, "points": len(points), "fired": 0, "journals": 0, "states": {}, "problems": [], "answers": []}
    for number, at in enumerate(points):
        restore_copy(case.operation)
        status, answer = forked(lambda at=at: case.run(at, ACTS[act], error, forever=forever))
        place = f"{case.operation}@{at}"
        if act in ("kill", "tear"):
            report["fired"] += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            answer = None
        elif answer is None or "raised" in answer:
            report["problems"].append(f"{place}: {answer}")
            continue
        else:
            report["fired"] += answer["fired"] > 0
            report["answers"].append([at, answer["code"], answer["err"]])
            if isinstance(case, Case) and case.names_lost_rights(answer["err"]):
                report["states"]["new, but for named rights"] = report["states"].get("new, but for named rights", 0) + 1
                continue
        keep_copy("left")
        status, seen = forked(
            lambda n=number: case.check(thorough=n % thorough_every == 0, back=n % back_every == 0)
        )
        if status != 0 or seen is None or "raised" in seen:
            report["problems"].append(f"{place}: {(seen or {}).get('raised', f'wait status {status}')}")
            continue
        report["journals"] += seen["journal"]
        report["states"][seen["state"]] = report["states"].get(seen["state"], 0) + 1
        is_done = seen["journal"] == case.is_open and seen["state"] == case.wanted
        is_said = answer is not None and answer["code"] == case.code and not (case.code and answer["err"])
        if is_said and not is_done:
            report["problems"].append(f"{place}: exit {case.code} although it was not done: {seen}")
    return report


def prepare():
    """Get ready: everything imported but the screen, which no command here opens; the shim at hand."""
    import importlib
    import pkgutil

    import casrewind
    from support import fault_sweep_maintenance, fault_sweep_prune, fault_sweep_purge, fault_sweep_budget, fault_sweep_revert, fault_sweep_to

    global SHIM, CASES
    os.umask(0o022)
    for module in pkgutil.walk_packages(casrewind.__path__, "casrewind."):
        if not module.name.endswith("__main__") and not module.name.startswith("casrewind.cli.picker."):
            importlib.import_module(module.name)
    _believe_stamps()
    SHIM = Shim()
    further = (fault_sweep_maintenance, fault_sweep_purge, fault_sweep_prune, fault_sweep_budget, fault_sweep_revert, fault_sweep_to)
    CASES = {name: case for module in further for name, case in module.CASES.items()}


def begin(directory):
    """Choose the places."""
    global BASE, ROOT, HOME, AFTER_PICTURE
    BASE = os.path.realpath(directory)
    ROOT, HOME = f"{BASE}/w", f"{BASE}/h"
    os.environ.update(HOME=HOME, CASREWIND_HOME=f"{HOME}/data")
    os.chdir(BASE)
    build(ROOT, AFTER)
    AFTER_PICTURE = project_picture()


def _believe_stamps():
    """Every stamp is remembered, however young: else it hangs on the speed of this machine what a command has to read again,
    and with it the number of calls that it makes."""
    from casrewind.model import stamp

    stamp.MARGIN_NS = stamp.COARSE_MARGIN_NS = -1_000_000_000 * 1_000_000


def answer(directory, specification):
    """Do what the specification says in a directory of its own; the report."""
    begin(directory)
    operation = specification.pop("operation")
    return sweep(CASES.get(operation, Case)(operation), specification.pop("act"), **specification)


def main():
    """Answer each line of standard input in a process of its own."""
    prepare()
    for line in iter(sys.stdin.readline, ""):
        _, report = forked(lambda line=line: answer(*json.loads(line)))
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    from support import fault_sweep as shared# the very module that sweep_maintenance sees

    shared.main()
