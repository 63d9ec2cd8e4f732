"""casrewind completion, and the answers to a TAB: commands and options by argcomplete, checkpoints and paths by this
module.

The shell runs `casrewind` with _ARGCOMPLETE set (`write_candidates`). After an error nothing is offered, and one line says why.
The store is only read, and its lock is awaited for a short time only.
"""

import argparse
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from argcomplete.completers import SuppressCompleter
from argcomplete.finders import CompletionFinder
from argcomplete.io import warn
from argcomplete.lexers import split_line
from argcomplete.shell_integration import shellcode

from ... import agents, config, errors
from ...context import Context
from ...history import lookup
from ...history.checkpoint_names import REMOTE, ReferencePlace, is_listed, label_of
from ...history.turn_view import TurnView
from ...messages import age_in_words, printable
from ...model import checkpoint as checkpoints
from ...model import manifest
from ...model.checkpoint import Checkpoint
from ...settings import Settings, from_environment, open_until_end
from ...store.catalog import Marked
from ...worktree import root as roots
from ..grammar import argparse_form as parser
from ..grammar.command_table import ADVANCED, COMMANDS
from ..grammar.options import Command, Option
from ..terminal.lines import print_line
from . import OK

COMMAND = Command(
    examples=('eval "$(casrewind completion bash)"', "casrewind completion fish | source"),
    options=(Option(("shell",), "the shell", choices=("bash", "zsh", "fish")),),
    more="To have completion in every new shell, add the eval line to the start-up file of your shell.",
    is_alone=True,
)

_IDS_OFFERED = 20
"""Ids that are offered before a character of an id is typed."""
_WIDTH = 50
"""Characters of a checkpoint's description beside its id."""
_DEADLINE = 0.5
"""Seconds to wait for a lock of the store."""

Candidates = dict[str, str]
"""Candidates, each with a short description."""


def run(_settings: Settings, options: argparse.Namespace) -> int:
    """casrewind completion."""
    print_line(shellcode(["casrewind"], shell=options.shell).strip())
    return OK


def write_candidates() -> int:
    """Write the candidates for the word at the cursor to the shell function. Then argcomplete ends the process."""
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    before = split_line(line)[3]
    grammar = parser.build_parser(before)
    dashes = re.search(r"\s--\s", line)
    if "--" in before and dashes is not None:  # words after `--` are paths, which the grammar does not describe
        grammar = argparse.ArgumentParser(prog="casrewind", add_help=False)
        grammar.add_argument("paths", nargs="*", metavar="PATH")
        grammar.set_defaults(directory=_typed_value_of(before, "-C", "."), store=_typed_value_of(before, "--store", None))
        os.environ["COMP_LINE"] = f"casrewind {line[dashes.end() :]}"
        os.environ["COMP_POINT"] = str(len(os.environ["COMP_LINE"]))
    _attach_completers(grammar)
    CompletionFinder()(grammar, always_complete_options=False, default_completer=SuppressCompleter())
    return 0


def _typed_value_of(words: list[str], name: str, otherwise: str | None) -> str | None:
    """The value of an option among the typed words."""
    at = words.index(name) + 1 if name in words else len(words)
    return words[at] if at < len(words) else otherwise


def _attach_completers(grammar: argparse.ArgumentParser) -> None:
    """Attach a completer to each argument, looked up by its metavar in --help."""
    for action in grammar._actions:  # noqa: SLF001 - argparse has no public access to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command in action.choices.values():
                _attach_completers(command)
        elif offer := _KINDS.get(f"{grammar.prog.partition(' ')[2]} {action.metavar}", _KINDS.get(str(action.metavar))):
            action.completer = _without_errors(offer)  # type: ignore[attr-defined]


Offer = Callable[[str, argparse.Namespace], Candidates]


def _without_errors(offer: Offer) -> Callable[..., Candidates]:
    """Wrap `offer` for argcomplete: an error offers nothing but its words, and candidates that a terminal would obey are
    dropped."""

    def offered(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Candidates:
        try:
            found = offer(prefix, parsed_args)
        except (errors.CasrewindError, OSError, UnicodeError) as error:
            warn(f"casrewind: {printable(str(error))}")
            return {}
        return {word: text for word, text in found.items() if word.isprintable() and word.startswith(prefix)}

    return offered


def _open_project(options: argparse.Namespace) -> AbstractContextManager[Context]:
    settings, _ = from_environment(store=options.store)
    return open_until_end(options.directory, settings._replace(deadline=_DEADLINE), create=False)


def _offer_references(prefix: str, options: argparse.Namespace) -> Candidates:
    with _open_project(options) as context:
        everything = context.store.checkpoints()
        mine = [pair for pair in everything if is_listed(pair[0], context.root.key)]
        turns = _offer_turns(prefix, context) | _offer_machine_names(prefix, context)
    found = {word: _checkpoint_description(*pair) for word, pair in zip(("last", "prev"), mine, strict=False)}
    found |= turns
    here = [pair for pair in everything if not pair[0].more.machine]
    labelled = [pair for pair in here if label_of(*pair) and pair[0].trigger != checkpoints.SAFETY]
    labels = Counter(label_of(*pair) for pair in labelled)
    found |= {label_of(*pair): _checkpoint_description(*pair) for pair in labelled if labels[label_of(*pair)] == 1}
    return found | {pair[0].id: _checkpoint_description(*pair) for pair in (everything if prefix else mine[:_IDS_OFFERED])}


def _offer_machine_names(prefix: str, context: Context) -> Candidates:
    """The names of other machines, each with its colon; behind a name that was typed, the turns of that machine."""
    known = lookup.machines(context.store.checkpoints())
    found = {f"{one.plain}:": "the newest machine of that name" for one in known if one.name != one.stored}
    found |= {f"{one.name}:": "another machine" for one in known} | ({REMOTE: "the other machine"} if len(known) == 1 else {})
    if not any(prefix.startswith(name) for name in found):
        return found
    place = lookup.machine_place(context, f"{prefix}@")
    typed = prefix.partition(":")[0]
    return {f"{typed}:last": "its newest checkpoint"} | {
        f"{typed}:{word}": text for word, text in _offer_turns(prefix.partition(":")[2] or "@", context, place).items()
    }


def _offer_turns(prefix: str, context: Context, place: ReferencePlace | None = None) -> Candidates:
    """The numbers of turns, with the `@` unless a digit was typed, and with `after:` where that was begun."""
    sign = "" if prefix[:1].isdigit() else "after:@" if prefix.startswith("after") else "@"
    if not prefix.startswith(sign) and not sign.startswith(prefix):
        return {}
    view = TurnView(context, needs_operations=False, place=place)
    turns = view.turns if prefix.removeprefix(sign) else view.turns[:_IDS_OFFERED]
    if "." in prefix and sign:
        turns = tuple(one for turn in turns for one in turn.subagents)
    side = "after" if sign == "after:@" else "before"
    return {f"{sign}{turn.name.removeprefix('@')}": _one_line(f"{side} {turn.prompt}", turn.started_ns) for turn in turns}


def _offer_turn_numbers(prefix: str, options: argparse.Namespace) -> Candidates:
    with _open_project(options) as context:
        return _offer_turns(prefix, context) | _offer_machine_names(prefix, context)


def _checkpoint_description(point: Checkpoint, marked: Marked) -> str:
    """A short description of a checkpoint."""
    return _one_line(label_of(point, marked) or point.prompt or point.trigger.replace("_", " "), point.created_ns)


def _one_line(text: str, moment: int | None) -> str:
    """An age and the first words of a text, in one line."""
    what = " ".join(text.split())
    when = "" if moment is None else f"{age_in_words(moment)}, "
    said = f"{when}{what if len(what) <= _WIDTH else what[: _WIDTH - 1] + '…'}"
    return "".join(character for character in said if character.isprintable())


def _offer_stored_paths(prefix: str, options: argparse.Namespace) -> Candidates:
    """Completes REF:PATH: checkpoints before the colon, stored paths after it."""
    if ":" not in prefix:
        return {f"{word}:": text for word, text in _offer_references(prefix, options).items()}
    with _open_project(options) as context:
        try:
            point, given = lookup.checkpoint_and_path(context, prefix)
        except errors.CasrewindError:
            if found := _offer_machine_names(prefix, context):
                return {f"{word}:": text for word, text in found.items()}
            raise
        return _paths_in_checkpoint(context, point, prefix.removesuffix(given), given, options)


def _paths_in_checkpoint(context: "Context", point: Checkpoint, before: str, given: str, options: argparse.Namespace) -> Candidates:
    """The paths of a checkpoint that begin with `given`, each after `before`."""
    folder = given[: given.rfind("/") + 1]
    (place,) = roots.paths_below_root(context.root.path, [folder or "."], options.directory)
    names = manifest.Finder(context.store.load_tree, point.tree).entries_of_directory(place).items()
    return dict(_pairs_of_candidates(((name, entry.kind == "dir") for name, entry in names), before + folder))


def _pairs_of_candidates(names: Iterable[tuple[bytes, bool]], before: str) -> Iterable[tuple[str, str]]:
    """Pairs (candidate, "") of the names that are valid text. Directories end in a slash."""
    for name, is_directory in names:
        try:
            yield f"{before}{name.decode()}{'/' if is_directory else ''}", ""
        except UnicodeDecodeError:
            continue


def _paths_on_disk(given: str, options: argparse.Namespace) -> Candidates:
    """Paths in the worktree, or anywhere else on the disk."""
    folder = given[: given.rfind("/") + 1]
    with os.scandir(os.path.join(os.fsencode(options.directory), os.fsencode(os.path.expanduser(folder))) or b".") as entries:
        found = dict(_pairs_of_candidates(((entry.name, entry.is_dir()) for entry in entries), folder))
    hidden = given.rpartition("/")[2].startswith(".")
    return {path: "" for path in found if hidden or not path[len(folder) :].startswith(".")}


def _offer_directories(given: str, options: argparse.Namespace) -> Candidates:
    return {path: "" for path in _paths_on_disk(given, options) if path.endswith("/")}


def _offer_paths(given: str, options: argparse.Namespace) -> Candidates:
    """Paths in the worktree and in the newest checkpoint. Empty if the command line has to name a checkpoint first."""
    if getattr(options, "ref", "") is None:
        return {}
    try:
        found = _paths_on_disk(given, options)
    except OSError:
        found = {}  # the directory itself may be lost
    try:
        with _open_project(options) as context:
            return _paths_in_checkpoint(context, lookup.checkpoint(context, "last"), "", given, options) | found
    except errors.CasrewindError:
        return found


def _offer_agents(_given: str, _options: argparse.Namespace) -> Candidates:
    return {client.name: client.title for client in agents.load_clients()}


def _offer_sessions(_given: str, options: argparse.Namespace) -> Candidates:
    with _open_project(options) as context:
        newest = reversed(lookup.checkpoints_of(context))
        return {point.session: f"{point.agent}, {age_in_words(point.created_ns)}" for point, _ in newest if point.session}


def _offer_references_and_paths(given: str, options: argparse.Namespace) -> Candidates:
    try:
        return _offer_references(given, options) | _offer_paths(given, options)
    except errors.CasrewindError:
        if found := _offer_paths(given, options):
            return found
        raise


def _offer_commands(_given: str, _options: argparse.Namespace) -> Candidates:
    return {name: row.help for name, row in COMMANDS.items() if row.group != ADVANCED}


def _offer_settings(_given: str, options: argparse.Namespace) -> Candidates:
    return config.variables() if options.action == "set" else {}


_KINDS: dict[str, Offer] = {
    "REF": _offer_references,
    "back N": _offer_turn_numbers,
    "REF | PATH": _offer_references_and_paths,
    "COMMAND": _offer_commands,
    "REF:PATH": _offer_stored_paths,
    "PATH": _offer_paths,
    "DIR": _offer_directories,
    "OLD": _offer_directories,
    "AGENT": _offer_agents,
    "config NAME": _offer_settings,
    "ID": _offer_sessions,
}
