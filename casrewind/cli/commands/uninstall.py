"""casrewind uninstall: the reverse of install."""

import os

from ..._typing import TYPE_CHECKING
from ...agents import install as installs
from ...agents.hook_checks import find_clients
from ...agents.hook_records import PROJECT
from ...agents.install import Uninstalled
from ...messages import plural, printable
from ..grammar.options import AGENT, JSON, Command
from ..show.shapes import Shape, path, path_or_none
from ..terminal.lines import print_json, print_line
from . import OK
from .config import stop_variables_counting
from .install import SCOPE, find_target, load_client_named

if TYPE_CHECKING:
    from ...settings import Settings
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind uninstall claude",),
    options=(
        AGENT, SCOPE, JSON,
    ),
    more="Removes only casrewind's hooks from the agent's settings. Your checkpoints stay.",
    is_alone=True,
)


def run(settings: "Settings", options: "ParsedOptions") -> int:
    """casrewind uninstall."""
    target = find_target(load_client_named(settings, options), settings, options)
    is_printed = target.client.prints_hooks_only
    found = Uninstalled(target, (), (), None, ()) if is_printed else installs.uninstall(target)
    if target.scope != PROJECT and not any(here.connected for here in find_clients(settings.home, settings.environ)):
        found = found._replace(notes=(*found.notes, *filter(None, [stop_variables_counting()])))
    if options.json:
        print_json(_shape_of_uninstalled(found))
    elif is_printed:
        print_line(f"remove the hooks with this in their command: hook {target.client.name}")
    else:
        _print_uninstalled(found)
    return OK


def _print_uninstalled(found: Uninstalled) -> None:
    client = found.target.client
    if not (found.written or found.command or found.short_command):
        print_line(f"nothing to uninstall: {printable(found.target.directory)} has no hooks of casrewind's")
    else:
        print_line(f"uninstalled: {client.title}, {plural(len(found.events), 'event')}; checkpoints stay")
    for item in found.written:
        print_line(f"  settings  {printable(item.path)}{' (as before the installation)' if item.restored else ''}")
    for command in filter(None, (found.command, found.short_command)):
        print_line(f"  command   removed {printable(command)}")
    for note in found.notes:
        print_line(f"  note: {note}")


def _shape_of_uninstalled(found: Uninstalled) -> Shape:
    return {
        "agent": found.target.client.name,
        "scope": found.target.scope,
        "changed": bool(found.written or found.command or found.short_command),
        "settings": [
            {**path(os.fsencode(item.path)), "changed": item.changed, "restored": item.restored} for item in found.written
        ],
        "events": list(found.events),
        **path_or_none(found.command, "command"),
        **path_or_none(found.short_command, "short_command"),
        "notes": list(found.notes),
    }
