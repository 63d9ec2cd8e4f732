"""casrewind exclude: the reverse of include."""


from ..._typing import TYPE_CHECKING
from ...messages import printable
from ...upkeep import inclusion
from ...upkeep.rule_effects import find_rule_effects
from ..grammar.options import JSON, Command
from ..show.verdicts import verdict_sentence
from ..terminal.lines import print_json, print_line
from . import OK, REMARKS, Done
from .include import RULE_WORDS, SHARED, change_json, matches_in_words, print_rules, print_unasked, words_of

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind exclude data/x.db",),
    options=(
        RULE_WORDS, SHARED, JSON,
    ),
    more=(
        "Older checkpoints keep these files, and casrewind purge removes them. If something is still captured, or the rules also change "
        "other paths, exclude names these paths and exits with 3."
    ),
    creates=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind exclude."""
    words = words_of(context, options)
    change = inclusion.exclude(context, words, shared=options.shared)
    effects = find_rule_effects(context, change, words)
    done()
    if options.json:
        print_json({**change_json(change, effects, context.store.path), "checkpoint": None, "created": False})
    else:
        print_rules(change)
        for verdict in effects.verdicts:
            print_line(verdict_sentence(verdict, context.store.path))
        for pattern, count in effects.matches:
            found = f"{matches_in_words(pattern, count)} left out from now on"
            print_line(found if count else f"{printable(pattern)}: nothing that it matches changes")
        print_unasked(effects, context.store.path)
    return OK if effects.as_asked else REMARKS
