"""Finds what is wrong with our hooks in a client's settings. Each problem is a sentence that says what to do next.

The first danger prevented here: a person believes that hooks save, and they do not. The interpreter that a hook names may be gone.
A hook may be edited, hidden by other settings, or switched off. The client says nothing of that and goes on without the hook.

The second danger: running a stranger's program. A clone may bring settings, and a program that they name. So a hook that does not
run this very casrewind is described, and is never run. This module writes nothing.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence

from .. import fsio
from ..typed import NamedTuple
from . import ours
from .install import PROJECT, USER
from .profile import TIERS, Profile
from .survey import LOCAL, PLUGIN, Hook, Scope, Survey, once


class Looked(NamedTuple):
    """What the settings of a client say. `hooks` count, those in `tried` can be run; `command` is the file of the
    `/casrewind` command. `problems` are sentences that say what to do; `notes` are no problems."""

    profile: Profile
    scopes: tuple[Scope, ...]
    hooks: tuple[Hook, ...]
    tried: tuple[Hook, ...]
    command: str | None
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def look(profile: Profile, root: str | None, home: str, environ: Mapping[str, str], tier: str) -> Looked:
    """Look at a client's settings: the user's and, with a `root`, that project's. `tier` is the configured one."""
    found = Survey(profile, root, tier)
    command = found.read(home, environ)
    tried = _judge(found)
    scopes, hooks = tuple(found.scopes), tuple(found.hooks)
    return Looked(profile, scopes, hooks, tuple(tried), command, tuple(found.problems), tuple(found.notes))


def _judge(found: Survey) -> list[Hook]:
    """Say what is wrong with all that was found; gives the hooks that can be tried."""
    tried: list[Hook] = []
    for scope in once(item.scope for item in found.scopes):
        here = [item for item in found.scopes if item.scope == scope]
        missing = [event for event in here[0].missing if (scope, event) not in found.hidden]
        if missing:
            places = ", ".join(fsio.show(item.settings) for item in here)
            found.problems.append(
                f"there is no hook for {', '.join(missing)} in {places}: nothing is saved then; "
                f"{found.install(scope)} puts it back"
            )
        _judge_twice(found, [hook for hook in found.hooks if hook.scope == scope], scope)
    _judge_scopes(found)
    _judge_tier(found)
    for place in once(hook.settings for hook in found.hooks):
        tried += _judge_lines(found, [hook for hook in found.hooks if hook.settings == place])
    return tried


def _judge_twice(found: Survey, hooks: list[Hook], scope: str) -> None:
    events = [hook.event for hook in hooks]
    twice = once(event for event in events if events.count(event) > 1)
    if twice:
        found.problems.append(
            f"{fsio.show(hooks[0].settings)} has more than one hook of casrewind's for {', '.join(twice)}; {found.install(scope)} "
            f"leaves one"
        )


def _judge_scopes(found: Survey) -> None:
    pairs = {(hook.scope, hook.event) for hook in found.hooks}
    if len({event for _, event in pairs}) == len(pairs):
        return
    places: dict[str, str] = {}
    for item in found.scopes:
        places.setdefault(item.scope, item.settings)
    stays = PLUGIN if PLUGIN in places else USER if USER in places else PROJECT
    uninstall = f"casrewind uninstall {found.profile.name}"
    ways = {USER: uninstall, PROJECT: f"{uninstall} --scope project", LOCAL: f"taking them out of {places.get(LOCAL)} by hand"}
    where = " and in ".join(f"{fsio.show(path)} ({scope})" for scope, path in places.items())
    remedy = " and ".join(fsio.show(ways[scope]) for scope in places if scope != stays)
    found.problems.append(f"hooks are there more than once, so an event may be saved as often: in {where}; what mends it: {remedy}")


def _judge_tier(found: Survey) -> None:
    known = {hook.event: found.profile.events[hook.event][1] for hook in found.hooks if hook.event in found.profile.events}
    most = TIERS.index(found.configured or TIERS[-1])
    idle = [event for event, tier in known.items() if TIERS.index(tier) > most]
    if idle:
        wanted = max((known[event] for event in idle), key=TIERS.index)
        found.problems.append(
            f"the hooks of {', '.join(idle)} do nothing, because the configured tier is {found.configured}: set tier = "
            f'"{wanted}" under [hooks] in config.toml, or casrewind install {found.profile.name} --tier {found.configured}'
        )
    unknown = once(hook.event for hook in found.hooks if hook.event not in found.profile.events)
    if unknown:
        found.notes.append(f"casrewind does nothing at {', '.join(unknown)}, where it has a hook")


def _judge_lines(found: Survey, hooks: list[Hook]) -> list[Hook]:
    """Of the hooks of one file; gives those that can be tried."""
    where, install = fsio.show(hooks[0].settings), found.install(hooks[0].scope)
    found.problems += [*_say_posted(found, hooks), *_say_gone(found, hooks)]
    there = [hook for hook in hooks if not hook.posted and not _gone(hook.words)]
    own = [hook for hook in there if _is_own(found.profile, hook)]
    for line in once(hook.line for hook in there if hook not in own):
        found.problems.append(
            f"a hook in {where} was not tried, because it does not run this casrewind, and settings may come from anybody: "
            f"{fsio.show(line)}; {install} writes it anew"
        )
    found.problems += _say_outdated(found, own)
    other = once(hook.event for hook in own if hook.guarded and not _is_earlier(hook) and not hook.as_ours)
    if other:
        found.notes.append(
            f"the hooks of {', '.join(other)} in {where} are not as this casrewind writes them (of another version, or edited); "
            f"{install} would make them so"
        )
    return own


def _is_own(profile: Profile, hook: Hook) -> bool:
    """True when a hook runs this casrewind with this interpreter, and nothing else."""
    words = [word for word in hook.words if word not in (ours.RESIDENT, *ours.EARLIER)]
    return words == ours.hook_command(profile.name) and ours.bare(hook.line) == shlex.join(hook.words)


def _is_earlier(hook: Hook) -> bool:
    """True when a hook has a word that only earlier versions wrote."""
    return not ours.EARLIER.isdisjoint(hook.words)


def standing(profile: Profile, root: str | None, home: str, environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Two lists of sentences for `status`: hooks whose files are gone, and other problems of hooks that an earlier version wrote.

    They cover a client's settings for the user and for the project `root`, and say what to do next.
    """
    found = Survey(profile, root, "")
    found.read(home, environ)
    gone: list[str] = []
    old: list[str] = []
    for place in once(hook.settings for hook in found.hooks):
        hooks = [hook for hook in found.hooks if hook.settings == place]
        gone += _say_gone(found, hooks)
        old += [*_say_posted(found, hooks), *_say_outdated(found, [hook for hook in hooks if not _gone(hook.words)])]
    return gone, old


def _say_posted(found: Survey, hooks: list[Hook]) -> Iterator[str]:
    if events := once(hook.event for hook in hooks if hook.posted):
        yield (
            f"the hooks of {', '.join(events)} in {fsio.show(hooks[0].settings)} are posted to a URL, where nothing listens any more: "
            f"nothing is saved then; {found.install(hooks[0].scope)} makes them commands"
        )


def _say_outdated(found: Survey, hooks: list[Hook]) -> Iterator[str]:
    if events := once(hook.event for hook in hooks if not hook.posted and not hook.guarded):
        yield (
            f"the hooks of {', '.join(events)} in {fsio.show(hooks[0].settings)} are outdated: where casrewind is moved or removed, "
            f"they block every prompt; {found.install(hooks[0].scope)} renews them"
        )
    elif events := once(hook.event for hook in hooks if _is_earlier(hook)):
        yield (
            f"the hooks of {', '.join(events)} in {fsio.show(hooks[0].settings)} are outdated: they work, but not as this version "
            f"writes them; {found.install(hooks[0].scope)} renews them"
        )


def _say_gone(found: Survey, hooks: list[Hook]) -> Iterator[str]:
    if paths := once(path for hook in hooks for path in _gone(hook.words)):
        are, named = "are" if len(paths) > 1 else "is", " and ".join(map(fsio.show, paths))
        yield (
            f"the hooks in {fsio.show(hooks[0].settings)} name {named}, which {are} not there any more; "
            f"{found.install(hooks[0].scope)} writes them anew"
        )


def _gone(words: Sequence[str]) -> list[str]:
    """The interpreter and the script that a command line of ours names, if they do not exist."""
    named = [word for word in words[:1] if word.startswith("/")]
    named += [word for word in words[1:] if word.startswith("/") and os.path.basename(word) == "__main__.py"]
    return [path for path in named if not os.path.isfile(path)]
