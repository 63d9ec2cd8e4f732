"""python -m benchmarks.history: what commands cost when the history is long and each checkpoint follows an edit.

A project of 60 small files. Each save by the Python API, or each turn of an agent, changes one line of one file. Whole processes: processor time until
the first row, in all, and peak memory. `--against` measures another checkout on copies of the same stores, in turn with this one.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl

import casrewind
from casrewind import agents
from casrewind.agents import event as events
from casrewind.upkeep import agent_event

from . import growth, trees
from .checked_options import refuse_too_few
from .compare import contenders, measure
from .scratch import USAGE, in_scratch

FILES, LINES = 60, 40
KINDS = ("saves", "turns")
SIZE = 24, 80
"""Lines and columns of the terminal that the picker is shown on."""
PICKER = "picker"
PATIENCE = 120
"""Seconds for the picker's first rows."""
COMMANDS = {
    "list -n 20": ["list", "-n", "20"], "show last": ["show", "last"], "show @1": ["show", "@1"], "list": ["list"],
    "list --json": ["list", "--json"], "log PATH": ["log", "PATH"], "status": ["status"], "diff last": ["diff", "last"],
    "restore -n REF": ["restore", "-n", "REF"], "statusline": ["statusline"], "save -q": ["save", "-q"],
}  # fmt: skip
"""`show @1` needs turns. PATH is the file of the newest edit, REF is @1 or last."""


def options(argv):
    """The options in `argv`, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description="What a long history costs.", allow_abbrev=False)
    parser.error = lambda message: parser.exit(USAGE, f"history: {message}\n")
    parser.add_argument("--checkpoints", metavar="N,...", type=growth.numbers, default=(100, 1000), help="sizes of stores (100,1000)")
    parser.add_argument("--kinds", metavar="A,...", type=growth.names_of(KINDS), default=KINDS, help=f"what makes the checkpoints, of {', '.join(KINDS)}")
    parser.add_argument("--commands", metavar="A,...", type=growth.names_of((*COMMANDS, PICKER)), default=(*COMMANDS, PICKER), help="what is measured (all)")
    parser.add_argument("--rounds", metavar="N", type=int, default=3, help="rounds of every command (3)")
    parser.add_argument("--against", metavar="DIR", help="another checkout, measured in turn with this one")
    parser.add_argument("--json", metavar="FILE", help="write every sample")
    given = parser.parse_args(argv)
    refuse_too_few(parser, given, rounds=1)
    if given.against is not None and not os.path.isdir(os.path.join(given.against, "casrewind")):
        parser.error(f"--against: {given.against!r} is no checkout")
    return given


def main(argv=None):
    """Measure, print tables; the exit code."""
    return in_scratch("history", _measure, options(argv))


def _measure(given, scratch):
    found = []
    for kind in given.kinds:
        history = History(os.path.join(scratch, kind), kind)
        for number in given.checkpoints:
            _say(f"{kind}: {number:,} checkpoints")
            history.grow(number)
            found += _lines(history, given, number)
    print(*table(found), sep="\n")
    if given.json is not None:
        with open(given.json, "w", encoding="utf-8") as file:
            file.write(json.dumps({"kind": "history", "lines": found}, indent=1) + "\n")
    return 0


class History:
    """A project of small files, and a store in which each checkpoint follows an edit."""

    def __init__(self, place, kind):
        """Make the files."""
        self._is_turns = kind == "turns"
        self.root, self._home, self.kind = os.path.join(place, "project"), os.path.join(place, "home"), kind
        self.store = os.path.join(self._home, "store")
        self._files = [os.path.join(self.root, f"d{number // 20}", f"f{number}.txt") for number in range(FILES)]
        self.made, self.growth, self.processor = 0, 0, 0.0
        os.makedirs(self._home)
        for number, path in enumerate(self._files):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"line {line} of {number}\n" for line in range(LINES))

    def grow(self, number):
        """Checkpoints until there are so many. Notes what each of them took: seconds of the processor, bytes of the disk."""
        with multiprocessing.get_context("fork").Pool(1) as pool:  # a command that is measured starts with the memory of this process
            self.made, self.processor, self.growth = pool.apply(self._grown, (number,))
            pool.close()
            pool.join()  # else the pool sends SIGTERM, and the process may print a traceback before it ends

    def _grown(self, number):
        before, began = measure.disk([self.store])[0], time.process_time()
        count = number - self.made
        with casrewind.open(self.root, casrewind.Settings(home=self._home, data=self.store, environ={})) as workspace:
            while self.made < number:
                if self._is_turns:
                    self._tell(workspace, "UserPromptSubmit", prompt=f"change line {self.made}")
                self._edit()
                if self._is_turns:
                    self._tell(workspace, "Stop")
                else:
                    workspace.save(f"step {self.made}")
                self.made += 2 if self._is_turns else 1
        return self.made, (time.process_time() - began) / max(count, 1), (measure.disk([self.store])[0] - before) / max(count, 1)

    def _edit(self):
        number = self.made // 2 if self._is_turns else self.made
        with open(self._files[number % FILES], encoding="utf-8") as file:
            lines = file.readlines()
        lines[number // FILES % LINES] = f"line of {number}\n"
        with open(self._files[number % FILES], "w", encoding="utf-8") as file:
            file.writelines(lines)

    def _tell(self, workspace, name, **more):
        """An event of Claude Code's, without a process."""
        payload = {"hook_event_name": name, "session_id": "s1", "cwd": self.root, "prompt_id": f"p{self.made}", **more}
        event = events.read_event(agents.load_client("claude"), json.dumps(payload).encode(), {})
        agent_event.record_event(workspace._context, event, 0, (), transcripts=False, tells_ends=True)

    def words(self, name):
        """The words of a command in this project."""
        path = os.path.relpath(self._files[(self.made // (2 if self._is_turns else 1) - 1) % FILES], self.root)
        names = {"PATH": path, "REF": "@1" if self._is_turns else "last"}
        return [names.get(word, word) for word in COMMANDS[name]]

    def environ(self, checkout, store):
        """The environment in which a checkout's code uses a store."""
        return {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": self._home, "CASREWIND_HOME": store, "LANG": "C.UTF-8", "TZ": "UTC",
            "PYTHONPATH": checkout, "CASREWIND_AUTO_GC": "false", "TERM": "xterm-256color", "NO_COLOR": "1",
        }  # fmt: skip


def _lines(history, given, number):
    """One line for each command and checkout."""
    checkouts = {"this": contenders.TOP, **({"other": os.path.abspath(given.against)} if given.against else {})}
    samples, stores = {}, {}
    for name in checkouts:
        stores[name] = f"{history.store}-{name}"
        trees.duplicate(history.store, stores[name])
    names = [name for name in given.commands if name != "show @1" or history.kind == "turns"]
    for turn in range(-1, given.rounds):  # the first is not counted: it fills caches
        for name in names:
            for which in sorted(checkouts, reverse=bool(turn % 2)):
                environ, words = history.environ(checkouts[which], stores[which]), [] if name == PICKER else history.words(name)
                sample = (_picker if name == PICKER else _run)([sys.executable, "-P", "-m", "casrewind", *words], history.root, environ)
                samples.setdefault((name, which), []).append(sample)
    for name in stores.values():
        trees.remove(name)
    yield {"kind": history.kind, "size": number, "command": "checkpoint made", "which": "this", "processor": history.processor, "bytes": history.growth}
    for (name, which), taken in samples.items():
        first, whole, memory = (statistics.median(parts) for parts in zip(*taken[1:], strict=True))
        yield {
            "kind": history.kind, "size": number, "command": name, "which": which, "first": first, "processor": whole, "memory": memory,
            "samples": taken[1:],
        }  # fmt: skip


def _run(command, root, environ):
    """(seconds of the processor until the first output, in all; bytes of the largest memory)."""
    process = subprocess.Popen(
        command, cwd=root, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    os.read(process.stdout.fileno(), 1 << 16)
    first = _processor(process.pid)
    while os.read(process.stdout.fileno(), 1 << 20):
        pass
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise measure.Failed(f"{' '.join(command)} ended with {process.returncode}: {process.stderr.read(500)!r}")
    process.stdout.close()
    process.stderr.close()
    whole = used.ru_utime + used.ru_stime
    return min(first or whole, whole), whole, used.ru_maxrss * 1024


def _processor(number):
    """Seconds of the processor that the threads of a process have had; 0 where that cannot be told."""
    found = 0
    try:
        for thread in os.listdir(f"/proc/{number}/task"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{number}/task/{thread}/schedstat") as file:
                found += int(file.read().split()[0])
    except OSError:
        return 0.0
    return found / 1e9


def _picker(command, root, environ):
    """(seconds of the processor until the picker shows rows, until it has read all of them; bytes of the largest memory)."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    process = subprocess.Popen(command, cwd=root, env=environ, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    shown, first = b"", 0.0
    try:
        while True:
            if not select.select([master], [], [], PATIENCE)[0]:
                raise measure.Failed(f"the picker showed no row in {PATIENCE} s")
            shown += os.read(master, 1 << 16)
            if re.search(rb"saved: step|change line", shown):
                first = _processor(process.pid)
                break
        whole, quiet = first, 0
        while quiet < 4:  # until it does nothing for a second
            while select.select([master], [], [], 0.25)[0]:
                os.read(master, 1 << 16)
            before, whole = whole, _processor(process.pid)
            quiet = quiet + 1 if whole - before < 0.02 else 0
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):
            while os.read(master, 1 << 16):
                pass
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        os.close(master)
    return first, whole, used.ru_maxrss * 1024


def table(lines):
    """The lines of a table for people: by kind and command, a column for each size. A ratio is this checkout's to the other's."""
    sizes = sorted({line["size"] for line in lines})
    by_place = {(line["kind"], line["command"], line["which"], line["size"]): line for line in lines}
    yield f"| | | {' | '.join(f'{size:,}' for size in sizes)} |"
    yield "|---|---|" + "---|" * len(sizes)
    for kind, name in dict.fromkeys((line["kind"], line["command"]) for line in lines):
        cells = [_cell(by_place.get((kind, name, "this", size)), by_place.get((kind, name, "other", size))) for size in sizes]
        yield f"| {kind} | {name} | {' | '.join(cells)} |"


def _cell(line, other):
    if line is None:
        return ""
    if "bytes" in line:
        return f"{line['processor'] * 1e3:.1f} ms, {line['bytes'] / 1e3:.1f} KB"
    times = " / ".join(growth.seconds(line[key]) for key in ("first", "processor"))
    before = "" if other is None else f" (before {' / '.join(growth.seconds(other[key]) for key in ('first', 'processor'))})"
    return f"{times}{before}, {line['memory'] / 1e6:.0f} MB"


def _say(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
