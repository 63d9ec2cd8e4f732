"""casrewind why: which rule decides about a path."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from ... import errors
from ..._typing import TYPE_CHECKING
from ...settings import Settings, find_root, open_until_end, scan_policy, store_path
from ...worktree import ignored
from ...worktree import root as roots
from ...worktree.reader import Worktree
from ...worktree.scan_policy import ScanPolicy
from ..grammar.options import JSON, Command, Option
from ..show.verdicts import verdict_json, verdict_sentence
from ..terminal.lines import print_json, print_line
from . import OK

if TYPE_CHECKING:
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind why .env",),
    options=(
        Option(("path",), "a file or directory, which need not exist; with a slash at the end: the contents of it", "PATH", nargs="+"),
        JSON,
    ),
    is_alone=True,
)


def run(settings: Settings, options: "ParsedOptions") -> int:
    """casrewind why."""
    root = find_root(options.directory, settings)
    store = store_path(root, settings)
    tree = Worktree(root.path)
    try:
        with _policy_of_next_save(options, settings) as policy:
            given = roots.paths_below_root(root.path, options.path, options.directory)
            policy = policy or scan_policy(root, settings)
            verdicts = [
                ignored.explain(tree, policy, path, inside=_means_contents(path, item))
                for path, item in zip(given, options.path, strict=True)
            ]
    finally:
        tree.close()
    if options.json:
        print_json({"paths": [verdict_json(verdict, store) for verdict in verdicts]})
    else:
        for verdict in verdicts:
            print_line(verdict_sentence(verdict, store))
    return OK


def _means_contents(path: bytes, given: str) -> bool:
    """True if a path as it was typed means what is in a directory: the root, or with a slash at its end."""
    return not path or given.rpartition("/")[2] in ("", ".", "..")


@contextmanager
def _policy_of_next_save(options: "ParsedOptions", settings: Settings) -> Iterator[ScanPolicy | None]:
    """What a save captures. The rules that the newest checkpoint recorded replace a file that is refused. None without
    a store that can be read."""
    with ExitStack() as stack:
        policy = None
        with suppress(errors.CasrewindError):
            policy = stack.enter_context(open_until_end(options.directory, settings, create=False)).policy
        yield policy
