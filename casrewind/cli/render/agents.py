"""What a person reads of an agent's client: install, uninstall."""

import os
from collections.abc import Sequence

from ... import fsio
from ...agents.clients import Client
from ...agents.install import PROJECT, Installed, Uninstalled
from .text import plural, say


def installed(found: Installed) -> None:
    """install."""
    client = found.target.client
    hooks = plural(len(found.hooks), "hook")
    done = "installed" if found.changed else "already installed, nothing was changed"
    say(f"{done}: {client.title}, {found.tier}, {hooks}")
    for item in found.written:
        kept = f" (as it was: {fsio.show(os.path.basename(item.backup))} beside it)" if item.backup else ""
        say(f"  settings  {fsio.show(item.path)}{kept}")
    say(f"  events    {', '.join(hook.event for _, hook in found.hooks)}")
    if found.command is not None:
        say(f"  command   /casrewind in the client ({fsio.show(found.command)})")
    for failed in found.failed:
        say(f"  ! {failed}")
    for note in found.notes:
        say(f"  note: {note}")
    if found.target.scope == PROJECT:
        say(f"  note: counts only where {client.title} is started in the root itself: a start in a subdirectory does not load it")
        say("  note: the hooks name the Python of this machine: do not share these settings with other people")
    if found.program is None:
        say(f"  note: {client.program} is not on the PATH here: is {client.title} installed?")
    say("  sessions that start from now on have it; casrewind status in the project shows the checkpoints that they make")


def uninstalled(found: Uninstalled) -> None:
    """uninstall."""
    client = found.target.client
    if not found.written and found.command is None:
        say(f"nothing to uninstall: {fsio.show(found.target.directory)} has no hooks of casrewind's")
        return
    say(f"uninstalled: {client.title}, {plural(len(found.events), 'event')}; checkpoints stay")
    for item in found.written:
        say(f"  settings  {fsio.show(item.path)}{' (as before the installation)' if item.restored else ''}")
    if found.command is not None:
        say(f"  command   removed {fsio.show(found.command)}")
    for note in found.notes:
        say(f"  note: {note}")


def plugin(client: Client, tier: str, directory: str, files: Sequence[str]) -> None:
    """install --plugin."""
    say(f"written: a plugin for {client.title}, {tier}, {plural(len(client.tiers[tier]), 'hook')}")
    for path in files:
        say(f"  {fsio.show(path)}")
    say(f"  try it with: {client.program} --plugin-dir {fsio.show(directory)}")
