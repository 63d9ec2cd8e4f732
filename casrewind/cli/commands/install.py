"""casrewind install and uninstall: add our hooks to an agent's client, or remove them. Without a client's name, install
finds the clients and asks which of them to connect.
"""

import json
import os
import shutil

from ... import __version__, agents, environment, errors
from ..._typing import TYPE_CHECKING
from ...agents import claude_plugin, hook_checks, settings_edit
from ...agents import install as installs
from ...agents.client import USUAL_TIER, Client
from ...agents.hook_checks import ClientHere
from ...agents.hook_records import PROJECT
from ...agents.install import Installed
from ...messages import plural, printable
from ..grammar.options import AGENT, ASSUME_YES, JSON, Command, Option, flag
from ..show.shapes import Shape, path, path_or_none
from ..show.text import Line
from ..terminal.lines import print_json, print_line, print_lines
from ..terminal.questions import agreed, may_ask_optional_question
from . import OK, REMARKS
from .config import let_variables_count

if TYPE_CHECKING:
    from ...settings import Settings
    from ..grammar.command_line import ParsedOptions

SCOPE = Option(("--scope",), "for all your projects (default) or only for this project", choices=("user", "project"))
_TIERS = (
    "minimal: save when a session starts and at prompts. balanced (default): also save when turns and the session end, when subagents "
    "start and end, and before compaction. aggressive: also save before every tool that may change files"
)
COMMAND = Command(
    examples=("casrewind install claude", "casrewind install claude --tier aggressive", "casrewind install claude --hands-free"),
    options=(
        Option(("--tier",), _TIERS, choices=("minimal", "balanced", "aggressive")),
        Option(("--plugin",), "write a Claude Code plugin that you can share into DIR, and change no settings", "DIR"),
        flag("--short", "also write the command /back, short for /casrewind back, if the client reads commands from files"),
        flag("--hands-free", "for an image or a sandbox: let environment variables name the remote that hooks push to, and its key"),
        AGENT._replace(nargs="?"),
        SCOPE,
        ASSUME_YES._replace(help="do not ask, and without AGENT connect all agents that casrewind finds"),
        JSON,
    ),
    more="Adds casrewind's hooks to the agent's settings. Without AGENT, install finds your agents and asks which to connect.",
    is_alone=True,
)


def run(settings: "Settings", options: "ParsedOptions") -> int:
    """casrewind install."""
    if options.agent is None:
        return _offer_to_connect_clients(settings, options)
    client = load_client_named(settings, options)
    tier = options.tier or options.configured_tier or USUAL_TIER
    if options.plugin is not None:
        return _write_plugin(client, tier, options)
    target = find_target(client, settings, options)
    if client.prints_hooks_only and options.hands_free:
        raise errors.UsageError(f"--hands-free needs installed hooks, but casrewind only prints those of {client.title}", "leave it out")
    if client.prints_hooks_only:
        return _print_hooks_to_paste(target, tier, options)
    if options.short and client.short_command_path(target.directory) is None:
        raise errors.UsageError(f"{client.title} does not read commands from files", "leave --short out")
    found = installs.install(target, tier, settings.environ, short=options.short)
    allows = let_variables_count() if options.hands_free else None
    if options.json:
        print_json({**_shape_of_installed(found), **path_or_none(allows, "hands_free")})
    else:
        _print_installed(found)
        if allows is not None:
            print_line(f"  hands-free: {printable(allows)} lets hooks use CASREWIND_REMOTE_URL, _KEY and _PUSH")
            print_line("  note: a project's own settings can set these, too, so use this only on a machine made for one project")
    return REMARKS if found.failed else OK


def _offer_to_connect_clients(settings: "Settings", options: "ParsedOptions") -> int:
    """Ask about each client on a terminal; elsewhere print the commands. With --yes, connect all of them."""
    if options.json or options.plugin is not None:
        raise errors.UsageError("install needs the name of a client with these options", "casrewind install alone lists the clients")
    found = hook_checks.find_clients(settings.home, settings.environ)
    if not found:
        print_line("no client was found: no program on the PATH, and no settings directory")
        print_line(f"  casrewind install AGENT connects one of: {', '.join(agents.NAMES)}")
        print_line("  casrewind watch saves after each burst of edits by any other agent or editor")
        return OK
    asking = may_ask_optional_question(options)
    worst = OK
    for here in found:
        client = here.client
        if here.connected:
            print_line(f"{client.title}: connected already ({_place_of_client(here)})")
        elif not asking and not options.yes:
            print_line(f"{client.title}: casrewind install {client.name} connects it ({_place_of_client(here)})")
        elif options.yes or agreed(f"Connect {client.title} ({_place_of_client(here)})?"):
            options.agent = client.name
            worst = max(worst, run(settings, options))
    return worst


def _place_of_client(here: ClientHere) -> str:
    return printable(here.program or here.directory or "")


def _print_hooks_to_paste(target: installs.Target, tier: str, options: "ParsedOptions") -> int:
    """Print the hooks for a client that has no settings file known here."""
    client = target.client
    if options.json:
        hooks = tuple(("", hook) for hook in client.hooks_of(tier))
        shape = _shape_of_installed(Installed(target, tier, (), hooks, None, False, None, (), ()))
        print_json({**shape, "hands_free": None})
        return OK
    groups = settings_edit.make_hook_entries(client, tier)
    print_line(json.dumps({"hooks": {event: [group] for event, group in groups.items()}}, indent=2))
    return OK


def _write_plugin(client: Client, tier: str, options: "ParsedOptions") -> int:
    if options.scope is not None or options.hands_free:
        raise errors.UsageError("--plugin DIR writes a plugin and no settings", "leave --scope and --hands-free out")
    if not options.plugin:
        raise errors.UsageError("--plugin needs the name of a directory")
    directory = os.path.normpath(os.path.join(options.directory, options.plugin))
    files = claude_plugin.write_plugin(os.path.abspath(directory), client, tier, __version__)
    directory = os.path.abspath(directory)
    if options.json:
        hooks = [{"event": hook.event, "matcher": hook.matcher, "timeout": hook.timeout} for hook in client.hooks_of(tier)]
        written = [path(os.fsencode(item)) for item in files]
        print_json({"agent": client.name, "tier": tier, **path(os.fsencode(directory), "plugin"), "files": written, "hooks": hooks})
        return OK
    print_line(f"written: a plugin for {client.title}, {tier}, {plural(len(client.hooks_of(tier)), 'hook')}")
    for item in files:
        print_line(f"  {printable(item)}")
    print_lines([Line(f"  try it with: {client.program} --plugin-dir {printable(directory)}", is_whole=True)])
    found = shutil.which("casrewind") or os.path.exists(os.path.join(environment.home_directory(), ".local", "bin", "casrewind"))
    if not found:
        print_line("  its hooks look for casrewind on the PATH and in ~/.local/bin, where it is missing now")
    print_line("  to install it, type in the client: /plugin marketplace add DIR, then /plugin install casrewind@casrewind")
    return OK


def load_client_named(settings: "Settings", options: "ParsedOptions") -> Client:
    """The client that the command line names. Raises UsageError with --store."""
    if settings.store is not None:
        raise errors.UsageError(f"{options.command} changes a client's settings and no store", "leave --store out")
    return agents.load_client(options.agent or "")


def find_target(client: Client, settings: "Settings", options: "ParsedOptions") -> installs.Target:
    """The settings of a client that the command line means: the user's, or with --scope those of the project."""
    root = None
    if options.scope == PROJECT:
        from ...settings import find_root

        root = find_root(options.directory, settings).path
    return installs.make_target(client, root, settings.home, settings.environ)


def _print_installed(found: Installed) -> None:
    client = found.target.client
    hooks = plural(len(found.hooks), "hook")
    done = "installed" if found.changed else "already installed, nothing was changed"
    print_line(f"{done}: {client.title}, {found.tier}, {hooks}")
    for item in found.written:
        kept = f" (as it was: {printable(os.path.basename(item.backup))} beside it)" if item.backup else ""
        print_line(f"  settings  {printable(item.path)}{kept}")
    print_line(f"  events    {', '.join(hook.event for _, hook in found.hooks)}")
    if found.command is not None:
        print_line(f"  command   /casrewind in the client ({printable(found.command)})")
    if found.short_command is not None:
        print_line(f"  command   /back in the client ({printable(found.short_command)})")
    elif found.command is not None and client.short_command_path(found.target.directory) is not None:
        print_line(f"  casrewind install {client.name} --short also makes /back, for /casrewind back")
    for failed in found.failed:
        print_line(f"  ! {failed}")
    for note in found.notes:
        print_line(f"  note: {note}")
    if found.target.scope == PROJECT:
        print_line(f"  note: these hooks run only if you start {client.title} in the root of the project, not in a subdirectory")
        print_line("  note: the hooks name the Python of this machine: do not share these settings with other people")
    if found.program is None:
        print_line(f"  note: {client.program} is not on the PATH here: is {client.title} installed?")
    print_line("  it works in new sessions; casrewind status shows their checkpoints")


def _shape_of_installed(found: Installed) -> Shape:
    return {
        "agent": found.target.client.name,
        "scope": found.target.scope,
        "tier": found.tier,
        "changed": found.changed,
        "settings": [
            {**path(os.fsencode(item.path)), "changed": item.changed, **path_or_none(item.backup, "backup")} for item in found.written
        ],
        "hooks": [
            {"event": hook.event, "matcher": hook.matcher, "timeout": hook.timeout, **path(os.fsencode(place), "settings")}
            for place, hook in found.hooks
        ],
        **path_or_none(found.command, "command"),
        **path_or_none(found.short_command, "short_command"),
        **path_or_none(found.program, "client"),
        "notes": list(found.notes),
        "failed": list(found.failed),
    }
