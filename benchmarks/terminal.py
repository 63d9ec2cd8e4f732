"""python -m benchmarks.terminal: how long a person waits for `casrewind list` and for the picker, with 5,000 checkpoints.

Whole processes in turn, beside one that starts Python and does nothing. The checkpoints are real: each follows edits of one
to three files, half of them are an agent's prompts in sessions of forty turns. They are made in this process, and no sync is
waited for meanwhile; the store is verified before anything is measured.
"""

import argparse
import contextlib
import os
import pty
import random
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from fcntl import ioctl

import casrewind
from casrewind.upkeep import save as saves

from . import trees

SIZE = 40, 130
"""Lines and columns of the terminal that the picker is shown on."""
PATIENCE = 60
_TURNS = 40


def main(argv=None):
    """Measure, print a table; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.terminal", description="How long a person waits.", allow_abbrev=False)
    parser.add_argument("tree", metavar="TREE", nargs="?", help="a real tree, which is copied; else one is generated")
    parser.add_argument("--files", metavar="N", type=int, default=79_000, help="files of the generated tree (79000)")
    parser.add_argument("--checkpoints", metavar="N", type=int, default=5000, help="checkpoints (5000)")
    parser.add_argument("--rounds", metavar="N", type=int, default=11, help="rounds (11)")
    parser.add_argument("--keep", metavar="DIR", help="make project and store in DIR, and use them again when they are there")
    given = parser.parse_args(argv)
    place = os.path.realpath(given.keep or tempfile.mkdtemp(prefix="casrewind-terminal-"))
    try:
        if not os.path.isdir(os.path.join(place, "home")):
            _prepare(place, given)
        _measure(place, given)
    finally:
        if not given.keep:
            trees.remove(place)
    return 0


def _settings(place):
    home = os.path.join(place, "home")
    return casrewind.default_settings()._replace(data=os.path.join(home, "data"), home=home, environ={"HOME": home})


def _prepare(place, given):
    """A project, its store, and a file that was edited since the newest checkpoint."""
    root = os.path.join(place, "project")
    os.makedirs(os.path.join(place, "home"))
    if given.tree:
        trees.copy(given.tree, root)
    else:
        trees.generate(root, given.files)
    files = sorted(os.path.join(at, name) for at, _, names in os.walk(root) for name in names if not os.path.islink(os.path.join(at, name)))
    synced = os.fsync, os.fdatasync
    began = time.monotonic()
    with casrewind.open(root, _settings(place)) as workspace:
        workspace.save("the first one")
        os.fsync = os.fdatasync = lambda _: None
        try:
            _grow(workspace, files, given.checkpoints - 2)
        finally:
            os.fsync, os.fdatasync = synced
        workspace.save("the last one")
        found = workspace.verify(quick=True)
        made = len(workspace.checkpoints())
    if found.problems or made != given.checkpoints:
        sys.exit(f"terminal: {made} checkpoints of {given.checkpoints}, problems: {found.problems[:3]}")
    with open(files[0], "ab") as file:
        file.write(b"\nthe only edit\n")
    print(f"{len(files):,} files, {made:,} checkpoints, made in {time.monotonic() - began:.0f} s")


def _grow(workspace, files, number):
    """So many checkpoints."""
    chance = random.Random(1)
    for count in range(number):
        for path in chance.sample(files, chance.randrange(1, 4)):
            with open(path, "ab") as file:
                file.write(b"edit %d\n" % count)
        moment = saves.Moment(label=f"step {count}")
        if count % 4:
            who = {"agent": "claude", "session": f"{count // _TURNS:08x}-0000-4000-8000-000000000000"}
            words = " ".join(chance.choices("now make the parser faster and write tests for what it does with long lines".split(), k=9))
            prompt = f"{words}, part {count}"
            moment = saves.Moment(trigger="prompt", prompt=prompt, **who) if count % 2 else saves.Moment(trigger="turn_end", **who)
        saves.save(workspace._context, moment)


def _measure(place, given):
    root, home = os.path.join(place, "project"), os.path.join(place, "home")
    environment = {
        "PATH": os.environ["PATH"], "HOME": home, "CASREWIND_HOME": os.path.join(home, "data"), "CASREWIND_AUTO_GC": "false",
        "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(filter(None, [os.path.dirname(os.path.dirname(__file__)), os.environ.get("PYTHONPATH")])),
    }  # fmt: skip
    command = [sys.executable, "-m", "casrewind", "-C", root]
    lines = {
        "python -c pass": lambda: _run([sys.executable, "-c", "pass"], environment),
        "casrewind list": lambda: _run([*command, "list"], environment),
        "casrewind list, terminal": lambda: _shown([*command, "--no-pager", "list"], environment, [])[-1],
        "casrewind list -n 20": lambda: _run([*command, "list", "-n", "20"], environment),
        "casrewind list --json": lambda: _run([*command, "list", "--json"], environment),
    }
    steps = {
        "picker: first paint": b"casrewind \xc2\xb7 ",
        "picker: its timeline": f"{given.checkpoints:,} checkpoints".encode(),
        "picker: edited since": b"edited since",
    }
    taken = {name: [] for name in [*lines, *steps]}
    for number in range(-1, given.rounds):  # the first is not counted: it fills caches
        for name in sorted(lines, reverse=bool(number % 2)):
            taken[name].append(lines[name]())
        for name, sample in zip(steps, _shown(command, environment, list(steps.values())), strict=True):
            taken[name].append(sample)
        if number < 0:
            for samples in taken.values():
                samples.clear()
    floor = statistics.median(seconds for seconds, _ in taken["python -c pass"])
    print(f"{'':<28}{'median':>10}{'least':>10}{'x python -c pass':>18}{'beyond it':>12}{'processor':>12}")
    for name, samples in taken.items():
        seconds = [sample[0] for sample in samples]
        middle, busy = statistics.median(seconds), statistics.median(sample[1] for sample in samples)
        unsteady = "~" if middle > 1.5 * min(seconds) else ""
        print(
            f"{name:<28}{middle * 1e3:>7.0f} ms{min(seconds) * 1e3:>7.0f} ms{middle / floor:>17.1f}{unsteady:<1}"
            f"{(middle - floor) * 1e3:>9.0f} ms{busy * 1e3:>9.0f} ms"
        )


def _run(words, environment):
    """Seconds from start to end, and of the processor."""
    before = os.times()
    began = time.perf_counter()
    subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - began, _of_children(before)


def _of_children(before):
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _of_process(number):
    """Seconds of the processor that a process has had; none where that cannot be told."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def _shown(words, environment, wanted):
    """Seconds, and seconds of the processor, until each of `wanted` was written to a terminal, or until the end when nothing
    is wanted."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    before, began = os.times(), time.perf_counter()
    process = subprocess.Popen(words, env=environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    shown, found = b"", []
    try:
        while not wanted or len(found) < len(wanted):
            if not select.select([master], [], [], PATIENCE)[0]:
                sys.exit(f"terminal: {wanted[len(found)]!r} was not shown: {shown[-2000:]!r}")
            try:
                shown += os.read(master, 1 << 16)
            except OSError:  # EIO: it has ended
                break
            text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown)
            while len(found) < len(wanted) and wanted[len(found)] in text:
                found.append((time.perf_counter() - began, _of_process(process.pid)))
        if wanted:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(OSError):
                while os.read(master, 1 << 16):
                    pass
        process.wait(PATIENCE)
        if len(found) < len(wanted):
            sys.exit(f"terminal: {wanted[len(found)]!r} was not shown: {shown[-2000:]!r}")
        return found or [(time.perf_counter() - began, _of_children(before))]
    finally:
        os.close(master)
        if process.poll() is None:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
