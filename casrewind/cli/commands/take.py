"""casrewind take."""

import os

from ... import locations
from ..._typing import TYPE_CHECKING
from ...change import take as takes
from ...change.worktree_change import WorktreeChange
from ...history import lookup, pathspecs
from ..grammar.options import ASSUME_YES, DRY_RUN, JSON, OPEN_FILES, PATHS, Command, Option
from ..plan.carry_out import CHANGES, carry_out_and_print
from ..plan.facts import target_of
from ..plan.question import ChangeRequest, PlanQuestion
from ..show import restored
from ..show.text import Line
from ..terminal.questions import must_ask_or_raise
from . import Done

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind take ../try --dry-run", "casrewind take ../try src"),
    options=(
        Option(("made",), "the directory that restore --to wrote", "DIR"),
        Option(("--base",), "the checkpoint from which DIR was made, if casrewind does not know it", "REF"),
        PATHS._replace(help="take only what changed at these paths, which are relative to the current directory"),
        DRY_RUN, OPEN_FILES, ASSUME_YES, JSON,
    ),
    usage=("[--base REF] [-n] [--open-files] [-y] [--json] DIR [--] [PATH ...]",),
    more=(
        "Merges the changes in DIR with those in this project, and files line by line. Leaves a path alone if both sides changed it "
        "differently, or if either side ignores it. To undo a take, type casrewind undo."
    ),
    behind="paths go",
    saves=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind take."""
    place = os.path.normpath(os.path.join(options.directory, options.made))
    base = None if options.base is None else lookup.checkpoint(context, options.base)
    with takes.open_made_directory(context, place, options.made, base) as made:
        scope = _paths_in_words(context, options, made)
        origin = target_of(context, made.base)
        request = ChangeRequest(
            lambda: f"take {made.name}", f"take {made.context.root.path}", anchor=made.base.id,
            target=restored.RestoreTarget(f"from {made.name}", origin.turn, origin.made_ns),
            explanation=Line(restored.CHANGES_SINCE.format(origin.state)),
        )  # fmt: skip
        is_asked = not options.dry_run and must_ask_or_raise(options, CHANGES)
        question = PlanQuestion(context, options, done, request, is_asked=is_asked)

        def prepare() -> WorktreeChange:
            return takes.prepare_take(context, made, scope)

        return carry_out_and_print(prepare, options, done, question, {"directory": made.context.root.path}, is_titled=options.dry_run)


def _paths_in_words(context: "Context", options: "ParsedOptions", made: takes.MadeDirectory) -> tuple[bytes, ...]:
    """The paths below the root that the words mean. A pattern is matched in the directory, where new files are."""
    words = [*options.paths, *options.rest]
    if not words:
        return ()
    here = os.path.relpath(locations.real_path(options.directory), context.root.path)
    return pathspecs.resolve_words(made.context, [made.base], words, os.path.join(made.context.root.path, here))
