"""The `casrewind` command: parse, call one method of the workspace, print, exit.

Exit codes are on the exceptions (errors.py); 3 says that something was left undone or unread, 64 a usage error, 130 an
interrupt, 70 a bug.
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence

from .. import errors
from . import failures

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ..ops.site import Progress
    from ..settings import Settings
    from ..workspace import Workspace

OK = 0
_UNHURRIED = 50_000
"""New objects after which Python looks for garbage that goes in circles. There is next to none; at 700, its own choice, the
looking takes a twentieth of a save."""
_CREATES = frozenset({"save", "run"})
_SAVES = frozenset({"save", "run", "restore", "jump", "undo", "redo", "back"})
"""Commands that make checkpoints: after them it may be time for gc."""
_STAYS = frozenset({"du", "gc", "purge", "verify"})
"""Commands that look after the store that is here: if there is none, they do not go for the one that was left elsewhere."""
_PATHS = frozenset({"diff", "jump", "restore"})
_ALONE = frozenset({"adopt", "config", "doctor", "install", "stores", "uninstall"})
"""Commands that need no workspace: what they do is given the settings instead."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    os.umask(os.umask(0o077) & 0o077)  # else one may not even open the lock that one has just made
    if given[:1] == ["hook"]:
        from . import hook

        return hook.main(given[1:])
    gc.set_threshold(_UNHURRIED)
    try:
        from . import parser as grammar

        failures.fill_standard_streams()
        before, after, dashed = grammar.split(given)
        options = grammar.parse(before)
        if options.command is None:
            grammar.build().print_help()
            return OK
        if dashed and options.command not in _PATHS | {"run"}:
            raise errors.UsageError(f"{options.command} takes nothing behind --")
        code = _run(options, after, dashed=dashed)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return failures.interrupted()
    except BrokenPipeError:
        failures.drop_output()  # whoever read our output has seen enough
        return OK
    except Exception as error:
        if failures.is_interrupt(error):
            return failures.interrupted()
        if isinstance(error, errors.CasrewindError):
            failures.say_error(str(error))
            return error.exit_code
        if isinstance(error, (OSError, MemoryError)):
            return failures.system_error(error)
        return failures.bug(error, given)


def _run(options: "argparse.Namespace", after: list[str], *, dashed: bool) -> int:
    from .. import hooks
    from . import environment, progress

    found = environment.read(store=options.store, force=getattr(options, "force", False))
    options.budget, options.limits = found.config.max_size, found.settings.limits
    options.rest, options.dashed, options.configured_tier = after, dashed, found.config.tier
    reporter = progress.reporter(quiet=options.quiet)
    if options.command in _ALONE:
        return _handler(options.command)(found.settings, options)
    settings = found.settings._replace(mend=getattr(options, "repair", False))
    try:
        opened = _open(options, settings, reporter)
    except errors.StoreDamaged as error:
        if options.command == "verify":
            return _handler("damaged store")(error, options)
        raise
    with opened as workspace:
        try:
            if options.command not in ("restore", "jump", "undo", "back", "status") and workspace.is_interrupted():
                failures.say_error(
                    "note: a restore was interrupted here; casrewind restore --continue finishes it, --abort takes it back"
                )
            failures.tell(hooks.unseen_failures(workspace, settings.data))
            code = _handler(options.command)(workspace, options, reporter.close if reporter else lambda: None)
            if options.command in _SAVES and found.config.auto_gc and hooks.why_gc(workspace):
                from . import background

                background.start(workspace.root.path, settings)
            return code
        finally:
            if reporter is not None:
                reporter.close()


def _open(options: "argparse.Namespace", settings: "Settings", reporter: "Progress | None") -> "Workspace":
    """The workspace. Where there is none yet, that of a project which was moved here, if it is beyond doubt."""
    from .. import hooks
    from ..workspace import Workspace

    stays = options.command in _STAYS
    try:
        found = Workspace(options.directory, settings, create=False, progress=reporter)
        if stays or not hooks.is_untouched(found):
            return found
        found.close()
    except errors.WorkspaceNotFound:
        pass
    from . import moving

    hint = (moving.hint if stays else moving.follow)(options.directory, settings)
    try:
        found = Workspace(options.directory, settings, create=options.command in _CREATES, progress=reporter)
    except errors.WorkspaceNotFound as error:
        raise errors.WorkspaceNotFound(f"{error}{hint}") from error
    if hint:
        failures.say_error(f"note: there was no checkpoint here yet{hint}")
    return found


_COMMANDS = {
    "save": "timeline.save",
    "list": "timeline.list_checkpoints",
    "show": "timeline.show",
    "diff": "timeline.diff",
    "restore": "travel.restore",
    "jump": "travel.restore",
    "back": "chat.back",
    "rewrite-chat": "chat.rewrite",
    "undo": "travel.undo",
    "redo": "travel.redo",
    "run": "travel.run",
    "cat": "timeline.cat",
    "pin": "timeline.pin",
    "unpin": "timeline.unpin",
    "adopt": "stores.adopt",
    "stores": "stores.stores",
    "install": "agents.install",
    "uninstall": "agents.uninstall",
    "config": "config.show",
    "doctor": "doctor.doctor",
    "du": "du.du",
    "gc": "upkeep.gc",
    "purge": "purge.purge",
    "status": "upkeep.status",
    "verify": "upkeep.verify",
    "damaged store": "upkeep.verify_unopened",
}
"""Which function of which module of commands/ a command is."""


def _handler(command: str) -> Callable[..., int]:
    import importlib

    module, _, name = _COMMANDS[command].partition(".")
    found: Callable[..., int] = getattr(importlib.import_module(f".commands.{module}", __package__), name)
    return found
