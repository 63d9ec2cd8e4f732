"""A command that a person types in a client. It shows its plan first, and changes files when `yes` is typed.

The danger prevented here: a person agrees to one plan, and another one is carried out. So each plan has a code that is made
from the plan itself: four characters of the checkpoint's id, and four of a digest of every change with both sides. The plan is
kept with its code for the session that saw it (store/shown_plans.py). `/casrewind yes` is completed to the line that was typed,
`yes` and that code. A path that changed since the plan was shown stays as it is.
"""

import re
import shlex

from .. import errors
from .._typing import NamedTuple
from ..messages import printable
from ..model import digest as digests
from ..model import plan as plans
from ..model.plan import Plan
from ..model.undo_history import History, encode_history, steps_alone
from ..typed_commands import YES, as_typed

_CODE = re.compile(r"[0-9a-z]{1,4}-[0-9a-f]{4}")
_FIRST = ("1", "@1")
MOST_UNASKED = 10
"""Paths that the smallest step may change without a plan."""


class TypedLine(NamedTuple):
    """What a person typed: the words without the answer, and the code that the person agreed to, None = none."""

    words: tuple[str, ...]
    code: str | None

    @property
    def is_smallest(self) -> bool:
        """True for a step to before the newest prompt, and for an undo. Such a step may be taken without a question."""
        if self.words[0] != "back":
            return self.words == ("undo",)
        return all(word in _FIRST for word in self.words[1:] if not word.startswith("-"))

    @property
    def text(self) -> str:
        """The line as it was typed."""
        return shlex.join((*self.words, *((YES, self.code) if self.code is not None else ())))

    def with_yes(self, code: str) -> str:
        """The whole line to type to carry out the plan with this code, where nobody knows which session saw it."""
        return as_typed(f"{printable(shlex.join(self.words))} {YES} {code}")


def parse_typed(words: list[str]) -> TypedLine:
    """The words of a command, and the answer at their end."""
    if len(words) > 2 and words[-2].lower() == YES and _CODE.fullmatch(words[-1]):
        return TypedLine(tuple(words[:-2]), words[-1])
    if len(words) > 1 and words[-1].lower() == YES and "--" not in words:  # behind the dashes it is a path
        return TypedLine(tuple(words[:-1]), None)
    return TypedLine(tuple(words), None)


def parse_typed_option(line: str) -> TypedLine:
    """The line that a person typed in a client, from the value of --typed. Raises UsageError."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    if not words:
        raise errors.UsageError("--typed is for hooks: it needs the line that a person typed")
    return parse_typed(words)


def code_of_plan(anchor: str, other_choices: str, plan: Plan) -> str:
    """The code of a plan. `anchor`: the id of its checkpoint, or of its session. `other_choices`: what else it depends on."""
    kept = b"".join(b"%s\0%s\0" % (item.path, item.reason.encode("utf-8", "surrogateescape")) for item in plan.kept)
    databases = _open_databases(plan)
    data = b"\0".join((anchor.encode(), other_choices.encode("utf-8", "surrogateescape"), plans.encode(plan.actions), kept))
    data += b"\0" + databases if databases else b""
    return f"{anchor[:4]}-{digests.of(data).hex()[:4]}"


def another_code(code: str) -> str:
    """A code of the same checkpoint that is not that of the plan: a yes with it shows the plan again."""
    if not _CODE.fullmatch(code):  # a damaged one
        return "0-0000"
    return f"{code[:-4]}{0xFFFF ^ int(code[-4:], 16):04x}"


def why_shown_again(typed: str, code: str, last: str) -> str:
    """Why a plan is shown in place of what a yes with the code `typed` was for. `code`: that of the plan now; `last`: of the one that
    was shown last, "" = none."""
    if typed == another_code(code):
        return "another command was typed since"
    if typed.partition("-")[0] != code.partition("-")[0]:
        return "that line means something else now"
    if typed != last:
        return "that is not the code of the plan that was shown last"
    return "a prompt, a restore or an open database came in between"


def digest_of_question(anchor: str, other_choices: str, plan: Plan, history: History) -> bytes:
    """All that a yes depends on but the paths: what is asked for, the open databases, and that no other restore was made."""
    words = (anchor.encode(), other_choices.encode("utf-8", "surrogateescape"), _open_databases(plan), encode_history(steps_alone(history)))
    return digests.of(b"".join(b"%d\0%s" % (len(word), word) for word in words))


def _open_databases(plan: Plan) -> bytes:
    return b"".join(b"%s\0%d\0" % (item.path, item.pid) for item in plan.open_files if item.is_database)
