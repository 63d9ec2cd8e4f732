"""casrewind install without a client's name: finds the clients that are there, and asks which of them to connect."""

from collections.abc import Callable

from ... import errors, fsio
from ..._typing import Any
from ...agents import diagnose
from ...agents.diagnose import ClientHere
from ...agents.more_profiles import ALL
from ..output import print_line
from ..questions import agreed, may_ask
from . import OK


def connect(settings: Any, options: Any, install: Callable[[Any, Any], int]) -> int:
    """Ask about each client on a terminal; elsewhere print the commands. With --yes, connect all of them. `install`
    connects the client `options.agent`."""
    if options.json or options.plugin is not None:
        raise errors.UsageError("install needs the name of a client with these options: casrewind install alone lists the clients")
    found = diagnose.find_clients(settings.home, settings.environ)
    if not found:
        print_line("no client was found: no program on the PATH, and no settings directory")
        print_line(f"  casrewind install AGENT connects one of: {', '.join(ALL)}")
        return OK
    asking = may_ask(options)
    worst = OK
    for client in found:
        if client.connected:
            print_line(f"{client.profile.title}: connected already ({_where(client)})")
        elif not asking and not options.yes:
            print_line(f"{client.profile.title}: casrewind install {client.profile.name} connects it ({_where(client)})")
        elif options.yes or agreed(f"Connect {client.profile.title} ({_where(client)})?"):
            options.agent = client.profile.name
            worst = max(worst, install(settings, options))
    return worst


def _where(client: ClientHere) -> str:
    return fsio.printable(client.program or client.directory or "")
