"""What is wrong with our hooks in a client's settings, each as a sentence that says what to do next. Nothing is written.

The danger prevented here: somebody who believes to be protected. Hooks name the path of an interpreter that may be gone,
are edited by hand, hidden by others, switched off; the client says nothing of all that, and goes on without them.

What a project's settings say may come with a clone: a command line in them that is not one of ours to the letter is not
handed out to be tried.
"""

import os
import shlex
from collections.abc import Mapping, Sequence

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
    posted = once(hook.event for hook in hooks if hook.posted)
    if posted:
        found.problems.append(
            f"the hooks of {', '.join(posted)} in {where} are posted to a URL, where nothing listens any more: nothing is saved then; "
            f"{install} makes them commands"
        )
    gone = once(path for hook in hooks for path in _gone(hook.words))
    if gone:
        are = "are" if len(gone) > 1 else "is"
        named = " and ".join(fsio.show(path) for path in gone)
        found.problems.append(f"the hooks in {where} name {named}, which {are} not there any more; {install} writes them anew")
    there = [hook for hook in hooks if not _gone(hook.words)]
    commands = [hook for hook in there if not hook.posted]
    strange = [hook for hook in commands if hook.scope in (PROJECT, LOCAL) and not _may_be_tried(found, hook)]
    for line in once(shlex.join(hook.words) for hook in strange):
        found.problems.append(
            f"a hook in {where} was not tried, because it is not as casrewind writes it, and settings of a project may come "
            f"from anybody: {fsio.show(line)}; {install} writes it anew"
        )
    other = once(hook.event for hook in there if not hook.as_ours and not hook.posted and hook not in strange)
    if other:
        found.notes.append(
            f"the hooks of {', '.join(other)} in {where} are not as this casrewind writes them (another Python or version, or "
            f"edited); {install} would make them so"
        )
    return [hook for hook in commands if hook not in strange]


def _may_be_tried(found: Survey, hook: Hook) -> bool:
    """Whether a hook in settings that may be anybody's runs casrewind and nothing of the project's."""
    words = [word for word in hook.words if word not in (ours.RESIDENT, ours.HTTP)]
    if words == ours.hook_command(found.profile.name):
        return hook.run[-1] == shlex.join(hook.words)
    if hook.run != ("/bin/sh", "-c", shlex.join(hook.words)) or not ours.is_written(hook.words, found.profile.name):
        return False
    inside = os.path.realpath(found.root or "/") + "/"
    paths = [word for word in hook.words if word.startswith("/")]
    return not any((os.path.realpath(path) + "/").startswith(inside) or path.startswith(inside) for path in paths)


def _gone(words: Sequence[str]) -> list[str]:
    """The interpreter or the script of a command line of ours that does not exist (any more)."""
    named = [word for word in words[:1] if word.startswith("/")]
    named += [word for word in words[1:] if word.startswith("/") and os.path.basename(word) == "__main__.py"]
    return [path for path in named if not os.path.isfile(path)]
