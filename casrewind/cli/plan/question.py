"""The question before a plan is carried out: on a terminal, with --yes, and in a client, where the person types the answer.

The danger prevented here: a restore takes back more than the person thinks. So every plan that is shown names the edits
that were made outside of a turn, and in a client nothing but the smallest step is done before its plan was shown.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from ... import launch
from ..._typing import TYPE_CHECKING, NamedTuple
from ...change.preflight import refuse_open_databases
from ...change.worktree_change import AGAIN
from ...model.at_risk import NO_EDITS, OutsideEdits
from ...model.checkpoint import PROMPT, Checkpoint
from ...model.plan import Action, Plan, sort_and_pack
from ...typed_commands import as_typed
from ..show import restored
from ..show.text import PIPED, Line
from ..terminal.lines import print_json, print_line, print_lines
from ..terminal.questions import KEEP_EDITS, YES, Proposal, ask_about_plan
from .facts import notes_above_plan

if TYPE_CHECKING:
    from ...context import Context
    from ...history.inner_projects import InnerTurns
    from ...hook.typed_line import TypedLine
    from ...model.turn_records import Turn
    from ..grammar.command_line import ParsedOptions


def keeps_edits(options: "ParsedOptions") -> bool:
    """True if a restore keeps what was edited outside of turns: by its option, else as configured. With -p, a person chooses."""
    if getattr(options, "patch", False):
        return False
    return options.configured_keep_edits if options.keep_edits is None else options.keep_edits


class ChangeRequest(NamedTuple):
    """What a person asks a command to change."""

    title: Callable[[], str]
    """Names the change, above its plan."""
    what: str = ""
    """The command and what it was given: see typed_line.code_of_plan."""
    target: restored.RestoreTarget = restored.NO_TARGET
    """Names the change in the result."""
    since: Checkpoint | None = None
    """The checkpoint to go back to, if edits after it are to be named."""
    anchor: str = ""
    """The id of the checkpoint that the plan rests on. "" = that of `since`."""
    moved: str = ""
    """Says that numbers of turns moved, or ""."""
    notes: Sequence[Line] = ()
    """What else stands above the plan."""
    explanation: Line | None = None
    """The first line below the title."""
    kept: str = restored.UNDO_KEEPS
    """What a yes preserves."""
    later: Callable[[Iterable[Action]], OutsideEdits] | None = None
    """Finds the edits that an undo of everything takes back."""
    is_at_once: Callable[[], bool] | None = None
    """True if a person in a client need not see a small plan first. None: if it takes back one turn alone."""


class PlanQuestion:
    """Called with a plan: returns True to go ahead, AGAIN if the person wants edits to be kept.

    `is_called`: its notes were shown. `outside`: after the call, the paths that were edited outside of a turn, if they were
    looked up. `inner`: after the call, the directories with turns of their own. `keep_edits`: whether the plan keeps edits.
    """

    def __init__(
        self, context: "Context", options: "ParsedOptions", done: Callable[[], None], request: ChangeRequest, *, is_asked: bool,
        is_shown: bool = False,
    ) -> None:  # fmt: skip
        """`is_shown`: the plan is printed without a question."""
        self._context, self._options, self._done, self._request = context, options, done, request
        self._is_asked, self._is_shown = is_asked, is_shown and not options.json
        self._anchor = request.anchor or ("" if request.since is None else request.since.id)
        self._typed = None if options.typed is None else _typed_line(options)
        self._lines: list[Line] = []
        self._agreement = ""
        self.is_called = False
        self.keep_edits = request.since is not None and keeps_edits(options)
        self.outside = NO_EDITS
        self.inner: tuple[InnerTurns, ...] = ()
        self.target, self.notes = request.target, request.notes

    @property
    def waits(self) -> bool:
        """True if a person is asked."""
        return self._is_asked and self._typed is None

    def __call__(self, plan: Plan) -> bool | str | Plan:
        """Show the plan and ask; or decide without a question. In a client, a yes may be one to an earlier plan: that is returned."""
        self._done()
        self.is_called = True
        self.find_inner_turns(plan.actions)
        if self._typed is not None:
            return self._agree_or_print(plan)
        if self._is_asked or self._is_shown or self._options.json:
            self.find_outside_edits(plan.actions)
        if not (self._is_asked or self._options.open_files):
            refuse_open_databases(plan.open_files)
        notes = (*self.notes, *notes_above_plan(self._context, plan))
        if not (self._is_asked or self._is_shown):
            print_lines(line._replace(is_remark=True) for line in (*notes, *restored.inner_lines(self.inner)))
            return True
        title = restored.headline(self._request.title(), plan)
        if self._is_shown:
            print_lines([*notes, title, *self._lines_below_title(plan, "")])
            return True
        may_keep = bool(self.outside.proved) and self.outside.can_stay and not self.keep_edits
        details = self._lines_below_title(plan, KEEP_EDITS)
        proposal = Proposal(title, details, notes, self._request.kept, lambda: self._patch_of_plan(plan), may_keep)
        answer = ask_about_plan(proposal, self._pager)
        if answer == KEEP_EDITS:
            self.keep_edits, self.outside = True, NO_EDITS
            return AGAIN
        return answer == YES

    def explanation_lines(self, turns: "Sequence[Turn]") -> list[Line]:
        """What a plan is, if it keeps edits or takes changes over. `turns`: those that it takes back."""
        if self._request.explanation is not None:
            return [self._request.explanation]
        if not self.keep_edits:
            return []
        machine = "" if self._request.since is None else self._request.since.more.machine
        return [*restored.what_stays_lines(machine, turns)]

    def print_that_nothing_changed(self) -> None:
        """Say that nothing was changed. In a client, the plan says so."""
        if self._typed is None:
            print_line("nothing was changed")
        elif self._options.json:
            print_json({"dry_run": True, "plan": "\n".join(line.text for line in self._lines), "agree": self._agreement})

    def title_if_not_shown(self) -> str:
        """The line above the result, if no plan with it was shown."""
        return "" if self._is_asked or self._is_shown else self._request.title()

    def find_outside_edits(self, actions: Iterable[Action]) -> None:
        """Look up which of these actions take back edits made outside of a turn, or since what is undone."""
        if self._request.later is not None:
            self.outside = self._request.later(actions)
        elif self._request.since is not None and not self.keep_edits:
            from ...history.provenance import edited_outside

            self.outside = edited_outside(self._context, self._request.since, actions)

    def find_inner_turns(self, actions: Iterable[Action]) -> None:
        """Look up in which directories with turns of their own these actions change paths."""
        from ...history.inner_projects import find_inner_turns

        since = self.target.made_ns
        if since is None:
            point = self._context.store.checkpoint(self._anchor)
            since = 0 if point is None else point.created_ns
        self.inner = find_inner_turns(self._context, since, actions)

    def _lines_below_title(self, plan: Plan, option_that_keeps: str) -> list[Line]:
        """The lines below the title of a plan. `option_that_keeps`: see outside_lines."""
        lines = restored.plan_lines(plan, names_sizes=self._options.command == "take")
        found = [*self.explanation_lines(plan.turns), *lines, *restored.outside_lines(self.outside, option_that_keeps)]
        found += [*restored.foreign_lines(plan.foreign), *restored.inner_lines(self.inner)]
        return [*found, Line(f"  {self._request.moved}")] if self._request.moved else found

    def _pager(self) -> AbstractContextManager[None]:
        from ..terminal.pager import pager

        return pager(self._options)

    def _patch_of_plan(self, plan: Plan) -> Iterator[Line]:
        from ...history import compare
        from ..show import comparison

        found = compare.comparison_of_plan(self._context, restored.really_changes(plan.actions), plan.merged, read=plan.read)
        return comparison.comparison_lines(found, comparison.Form(comparison.PATCH), PIPED)

    def _agree_or_print(self, plan: Plan) -> bool | Plan:
        """True if the person typed the code of this plan, or if it is the smallest step. The earlier plan, if the person typed its code.
        Else this plan is shown, and the answer is False."""
        from ...hook.typed_line import code_of_plan, digest_of_question, why_shown_again
        from ...store.shown_plans import ShownPlans, WaitingPlan

        assert self._typed is not None
        store, key, session = self._context.store, self._context.root.key, os.environ.get(launch.INSIDE, "")
        prompts = (point.id for point, _ in store.checkpoints() if point.session == session and point.trigger == PROMPT)
        what = f"{self._request.what} {next(prompts, '')}"  # yes agrees to no plan that is older than the last prompt
        code, question = code_of_plan(self._anchor, what, plan), digest_of_question(self._anchor, what, plan, store.history(key))
        plans = ShownPlans(store.path, key, session)
        if self._typed.code is not None and (shown := plans.read(self._typed.code, question)) is not None:
            plans.forget()
            return plan._replace(actions=shown)
        if self._typed.code == code or (self._typed.code is None and self._is_step_without_question(plan)):
            plans.forget()
            return True
        last = "" if (waiting := plans.waiting()) is None else waiting.code
        again = "" if self._typed.code is None else why_shown_again(self._typed.code, code, last)
        plans.write(WaitingPlan(self._typed.words, code), question, sort_and_pack(plan.actions))
        self.find_outside_edits(plan.actions)
        is_known = session not in ("", launch.UNKNOWN_SESSION)
        line = as_typed("yes") if is_known else self._typed.with_yes(code)
        self._lines = [line._replace(is_remark=False) for line in self._plan_in_client(plan, line, again)]
        self._agreement = self._typed._replace(code=code).text
        if not self._options.json:
            print_lines(self._lines)
        return False

    def _is_step_without_question(self, plan: Plan) -> bool:
        from ...history.provenance import is_of_turn_alone
        from ...hook.typed_line import MOST_UNASKED

        assert self._typed is not None
        needs_look = plan.foreign or plan.kept or plan.only_copies or plan.open_files or self.inner or self.notes
        if not self._typed.is_smallest or needs_look or sum(restored.written_and_removed(plan.actions)) > MOST_UNASKED:
            return False
        if self._request.is_at_once is not None:
            return self._request.is_at_once()
        return self._request.since is not None and is_of_turn_alone(self._context, self._request.since, plan.actions)

    def _plan_in_client(self, plan: Plan, line: str, again: str) -> Iterator[Line]:
        """The plan in a client, with the line to type. `again`: why a yes was not enough, or ""."""
        if again:
            yield Line(f"{again}; nothing has changed. The plan now:")
        yield from (*self.notes, *notes_above_plan(self._context, plan))
        yield restored.headline(self._request.title(), plan)
        yield from self._lines_below_title(plan, restored.OPTION)
        yield Line("nothing has changed yet. To go ahead, type:")
        yield Line(f"  {line}")


def _typed_line(options: "ParsedOptions") -> "TypedLine":
    from ...hook.typed_line import parse_typed_option

    assert options.typed is not None
    return parse_typed_option(options.typed)
