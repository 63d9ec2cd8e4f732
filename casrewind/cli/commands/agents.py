"""The commands that bring an agent's client and casrewind together."""

import argparse
import os
import sys
from contextlib import suppress

from ... import __version__, agents, errors
from ...agents import install as installs
from ...agents import plugin
from ...agents.profile import USUAL_TIER, Profile
from ...typed import Any
from .. import places, shapes
from ..render import agents as render
from ..render import text
from . import OK, REMARKS


def install(settings: Any, options: argparse.Namespace) -> int:
    """casrewind install."""
    profile = _profile(settings, options)
    tier = options.tier or options.configured_tier or USUAL_TIER
    if options.resident and not sys.platform.startswith("linux"):
        raise errors.UsageError("the helper is for Linux only: leave --resident out, hooks do all of their work themselves here")
    if options.plugin is not None:
        return _plugin(profile, tier, options)
    target = _target(profile, settings, options)
    found = installs.install(target, tier, settings.environ, resident=options.resident)
    _remove_secret(target)
    if options.json:
        text.as_json(shapes.installed(found))
    else:
        render.installed(found)
    return REMARKS if found.failed else OK


def uninstall(settings: Any, options: argparse.Namespace) -> int:
    """casrewind uninstall."""
    target = _target(_profile(settings, options), settings, options)
    found = installs.uninstall(target)
    _remove_secret(target)
    if options.json:
        text.as_json(shapes.uninstalled(found))
    else:
        render.uninstalled(found)
    return OK


def _remove_secret(target: installs.Target) -> None:
    """Remove the file with the port and secret that an earlier version made for posted hooks. No settings name it now."""
    if target.scope == installs.USER and target.profile.name == "claude":
        with suppress(OSError):
            os.unlink(os.path.join(places.helpers(), "address"))


def _plugin(profile: Profile, tier: str, options: argparse.Namespace) -> int:
    if options.scope is not None:
        raise errors.UsageError("--plugin DIR writes a plugin and no settings: leave --scope out")
    if not options.plugin:
        raise errors.UsageError("--plugin needs the name of a directory")
    directory = os.path.normpath(os.path.join(options.directory, options.plugin))
    files = plugin.write(os.path.abspath(directory), profile, tier, __version__, resident=bool(options.resident))
    if options.json:
        text.as_json(shapes.plugin(profile, tier, os.path.abspath(directory), files))
    else:
        render.plugin(profile, tier, os.path.abspath(directory), files)
    return OK


def _profile(settings: Any, options: argparse.Namespace) -> Profile:
    if settings.store is not None:
        raise errors.UsageError(f"{options.command} changes a client's settings and no store: leave --store out")
    return agents.profile_of(options.agent)


def _target(profile: Profile, settings: Any, options: argparse.Namespace) -> installs.Target:
    root = None
    if options.scope == installs.PROJECT:
        from ...settings import find_root

        root = find_root(options.directory, settings).path
    return installs.target_of(profile, root, settings.home, settings.environ)
