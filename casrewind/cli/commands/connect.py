"""casrewind install without a client's name: finds the clients that are there, and asks which of them to connect."""

import json
from collections.abc import Callable

from ... import errors, fsio
from ..._typing import Any
from ...agents import clients_here, settings_edit
from ...agents.clients_here import ClientHere
from ...agents.profiles import PROFILES, USUAL_TIER, Profile
from ..output import agreed, may_ask, print_line
from . import OK


def connect(settings: Any, options: Any, install: Callable[[Any, Any], int]) -> int:
    """Ask for each client on a terminal; elsewhere print the commands. `install` connects the client `options.agent`."""
    if options.json or options.plugin is not None:
        raise errors.UsageError("install needs the name of a client with these options: casrewind install alone lists the clients")
    options.yes = False
    found = clients_here.find(settings.home, settings.environ)
    if not found:
        print_line("no client was found: no program on the PATH, and no settings directory")
        print_line(f"  casrewind install AGENT connects one of: {', '.join(PROFILES)}")
        return OK
    asking = may_ask(options)
    worst = OK
    for client in found:
        if client.connected:
            print_line(f"{client.profile.title}: connected already ({_where(client)})")
        elif not asking:
            print_line(f"{client.profile.title}: casrewind install {client.profile.name} connects it ({_where(client)})")
        elif agreed(f"Connect {client.profile.title} ({_where(client)})?"):
            options.agent = client.profile.name
            worst = max(worst, install(settings, options))
    return worst


def _where(client: ClientHere) -> str:
    return fsio.printable(client.program or client.directory or "")


def show(profile: Profile, options: Any) -> int:
    """Print the hooks for a client whose settings are not known here."""
    tier = options.tier or options.configured_tier or USUAL_TIER
    if options.command == "uninstall":
        print_line(f"remove the hooks whose command contains: hook {profile.name}")
        return OK
    groups = settings_edit.groups(profile, tier, resident=bool(options.resident))
    print_line(json.dumps({"hooks": {event: [group] for event, group in groups.items()}}, indent=2))
    return OK
