"""The picker without a screen: a numbered list and a line to type, each answer a command of the command line."""

import argparse
import shlex
from collections.abc import Callable

from ... import errors
from ...typed import Any
from .. import failures
from .. import parser as grammar
from ..commands import OK, Done, chat, timeline, travel
from ..render.chat import agree
from ..render.text import asked, remark, say
from . import rows
from .board import Board
from .rows import Row

_PAGE = 10
_HELP = (
    "c N code   t N chat   b N both   i N chat in place   c N PATH... chosen files   d N what would change\n"
    "d N M from N to M   u undo   U undo all   r redo   p N pin   l N LABEL   /WORDS filter   a all   m more   q quit"
)
_WAYS = {"u": ("undo",), "U": ("undo", "--all"), "r": ("redo",), "continue": ("restore", "--continue"), "abort": ("restore", "--abort")}
_VERBS = {"c": "--code", "t": "--chat", "b": "--both"}


def run(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """Show, ask, do, until the person has enough: the end of input and an empty line are that. The last exit code."""
    return _Prompt(workspace, options, done).run()


class _Prompt:
    def __init__(self, workspace: Any, options: argparse.Namespace, done: Done) -> None:
        self._workspace, self._options, self._done = workspace, options, done
        self._board = Board(workspace)
        self._rows: list[Row] = []
        self._shown: list[Row] = []
        self._paths: dict[str, list[str]] = {}
        self._first, self._words, self._everything = 0, "", False

    def run(self) -> int:
        code, stale = OK, True
        while True:
            if stale:
                self._read()
            self._list()
            try:
                answer = asked("What now? [q] ").strip()
            except EOFError:
                say()
                return code
            if answer in ("", "q", "quit", "\x1b"):
                return code
            stale = False
            try:
                found = self._do(answer)
                if found is not None:
                    code, stale = found, True
            except (errors.CasrewindError, ValueError) as error:
                failures.say_error(str(error))

    def _read(self) -> None:
        self._rows, self._current, unfinished = self._board.timeline()
        if unfinished:
            for line in ("A restore was interrupted here.", *unfinished, "continue finishes it, abort takes it back"):
                say(line)
        self._board.look()
        self._done()

    def _list(self) -> None:
        if self._words:  # paths are read only for somebody who looks for one
            self._paths.update(self._board.paths(rows.unread(self._rows, self._paths, len(self._rows))))
        self._shown = rows.choose(self._rows, self._words, self._paths, everything=self._everything)
        page = self._shown[self._first : self._first + _PAGE]
        counts = self._board.counts([row for row in page if not row.elsewhere])
        self._done()
        if not page:
            say("no checkpoint with that" if self._words else "no checkpoint yet: casrewind save makes one")
        for number, row in enumerate(page, self._first + 1):
            say(f"{number:>4}  {row.title}")
            say(f"      {rows.about(row, counts.get(row.point.id), self._current)}")
        left = len(self._shown) - self._first - len(page)
        if left > 0:
            say(f"      and {left} older ones: m")
        for line in _HELP.split("\n"):
            say(line)

    def _do(self, answer: str) -> int | None:
        """The exit code of what was done, None when there was only something to look at."""
        if answer.startswith("/"):
            self._words, self._first = answer[1:].strip(), 0
            return None
        words = shlex.split(answer)
        verb, given = words[0], words[1:]
        if verb in ("a", "m"):
            self._everything ^= verb == "a"
            self._first = 0 if verb == "a" else min(self._first + _PAGE, max(len(self._shown) - 1, 0))
            return None
        if verb in _WAYS and not given:
            line = list(_WAYS[verb])
            return self._call({"undo": travel.undo, "redo": travel.redo, "restore": travel.restore}[line[0]], line, [])
        if verb in _VERBS and given:
            return self._restore(["restore", self._point(given[0]), _VERBS[verb]], given[1:])
        if verb == "i" and len(given) == 1:
            return self._call(chat.rewrite, ["rewrite-chat", self._point(given[0])], [])
        if verb == "d" and given:
            self._call(timeline.diff, ["diff", "--patch", *(self._point(number) for number in given[:2])], given[2:])
            return None
        if verb == "p" and len(given) == 1:
            return self._call(timeline.pin, ["pin", self._point(given[0])], [])
        if verb == "l" and len(given) > 1:
            return self._call(timeline.pin, ["pin", self._point(given[0]), " ".join(given[1:])], [])
        remark(f"casrewind: {answer!r} is none of the answers")
        return None

    def _restore(self, line: list[str], paths: list[str]) -> int:
        try:
            return self._call(travel.restore, line, paths)
        except errors.StoreDamaged as error:
            if line[-1] == "--chat" or self._workspace.is_interrupted():
                raise
            failures.say_error(str(error))
            if not agree("Leave alone what is damaged, and plan all the rest?"):
                say("nothing was changed")
                return OK
            return self._call(travel.restore, [*line, "--skip-damaged"], paths)

    def _point(self, number: str) -> str:
        if not number.isdigit() or not 1 <= int(number) <= len(self._shown):
            raise errors.UsageError(f"{number!r} is no number of the list: give one of 1 to {len(self._shown)}")
        return self._shown[int(number) - 1].point.id

    def _call(self, command: Callable[..., int], line: list[str], paths: list[str]) -> int:
        options = grammar.parse(line)
        options.directory, options.quiet = self._options.directory, self._options.quiet
        options.rest, options.dashed = paths, bool(paths)
        return command(self._workspace, options, self._done)
