"""What a person reads of an agent's client: install, uninstall."""

import os
from collections.abc import Sequence

from ... import fsio
from ...agents.install import PROJECT, Installed, Uninstalled
from ...agents.profile import Profile
from .text import plural, say


def installed(found: Installed) -> None:
    """install."""
    profile = found.target.profile
    hooks = plural(len(found.hooks), "hook")
    done = "installed" if found.changed else "already installed, nothing was changed"
    say(f"{done}: {profile.title}, {found.tier}, {hooks}")
    for item in found.written:
        kept = f" (as it was: {fsio.show(os.path.basename(item.backup))} beside it)" if item.backup else ""
        say(f"  settings  {fsio.show(item.path)}{kept}")
    say(f"  events    {', '.join(hook.event for _, hook in found.hooks)}")
    if found.command is not None:
        say(f"  command   /casrewind in the client ({fsio.show(found.command)})")
    if found.resident:
        say("  helper    casrewind watch, started with a session; it ends by itself after 30 minutes without an event")
    for failed in found.failed:
        say(f"  ! {failed}")
    for note in found.notes:
        say(f"  note: {note}")
    if found.target.scope == PROJECT:
        say(f"  note: counts only where {profile.title} is started in the root itself: a start in a subdirectory does not load it")
        say("  note: the hooks name the Python of this machine: do not share these settings with other people")
    if found.program is None:
        say(f"  note: {profile.program} is not on the PATH here: is {profile.title} installed?")
    say("  sessions that start from now on have it; casrewind status in the project shows the checkpoints that they make")


def uninstalled(found: Uninstalled) -> None:
    """uninstall."""
    profile = found.target.profile
    if not found.written and found.command is None:
        say(f"nothing to uninstall: {fsio.show(found.target.directory)} has no hooks of casrewind's")
        return
    say(f"uninstalled: {profile.title}, {plural(len(found.events), 'event')}; checkpoints stay")
    for item in found.written:
        say(f"  settings  {fsio.show(item.path)}{' (as before the installation)' if item.restored else ''}")
    if found.command is not None:
        say(f"  command   removed {fsio.show(found.command)}")
    for note in found.notes:
        say(f"  note: {note}")


def plugin(profile: Profile, tier: str, directory: str, files: Sequence[str]) -> None:
    """install --plugin."""
    say(f"written: a plugin for {profile.title}, {tier}, {plural(len(profile.hooks[tier]), 'hook')}")
    for path in files:
        say(f"  {fsio.show(path)}")
    say(f"  try it with: {profile.program} --plugin-dir {fsio.show(directory)}")
