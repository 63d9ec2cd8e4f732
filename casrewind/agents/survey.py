"""What stands in a client's settings of our hooks: the user's, a project's, those of plugins. Nothing is written.

What cannot be read is a problem that is told, and no reason to look no further.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .. import errors, fsio
from ..typed import Any, NamedTuple
from . import files, jsontext, ours, plugin, settings
from .documents import files_of
from .install import PROJECT, USER, Target, target_of
from .profile import TIERS, USUAL_TIER, File, Profile

LOCAL, PLUGIN, PARTLY = "local", "plugin", "partly"
_TIMEOUT = 60.0  # seconds that a client gives to a hook that asks for nothing


class Hook(NamedTuple):
    """A hook of ours as it stands in a client's settings.

    `line` is its command line; `words` are those of the program in it, () when a shell would not understand it. `timeout` in
    seconds. `as_ours`: it is exactly what an installation would write now. `posted`: it is no command, but one that an
    earlier version had the client post. `guarded`: it can only end with 0.
    """

    scope: str
    settings: str
    event: str
    line: str
    words: tuple[str, ...]
    timeout: float
    as_ours: bool
    posted: bool
    guarded: bool


class Scope(NamedTuple):
    """One settings file with hooks of ours that count: `tier` is the one that they make up, or PARTLY; `missing` are the
    events that the nearest tier has besides; `resident`: some of them start the helper."""

    scope: str
    settings: str
    tier: str
    events: tuple[str, ...]
    missing: tuple[str, ...]
    resident: bool = False


def tier_of(profile: Profile, events: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """(the tier that hooks at these events make up, or PARTLY; the events that the nearest one has besides)."""
    known = {hook.event for hook in profile.hooks[TIERS[-1]]}.intersection(events)
    for tier in TIERS:
        wanted = [hook.event for hook in profile.hooks[tier]]
        if known.issubset(wanted):
            missing = tuple(event for event in wanted if event not in known)
            return (PARTLY if missing else tier), missing
    return PARTLY, ()


class Survey:
    """What was found so far. `scopes` and `hooks` are what counts in the client, `hidden` are (scope, event) of hooks that
    do not because of others; `problems` are sentences that say what to do."""

    def __init__(self, profile: Profile, root: str | None, tier: str) -> None:
        """Nothing is read yet. `root` is a project's, `tier` the configured one, "" for none."""
        self.profile, self.root, self.configured = profile, root, tier
        self.scopes: list[Scope] = []
        self.hooks: list[Hook] = []
        self.hidden: set[tuple[str, str]] = set()
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._plugins: dict[str, bool] = {}
        self._commands: list[str] = []

    def read(self, home: str, environ: Mapping[str, str]) -> str | None:
        """Read everything; gives the file of the `/casrewind` command."""
        user = target_of(self.profile, None, home, environ)
        used, idle = files_of(self.profile, user.directory)
        self._scope(USER, user, used)
        for file in idle:
            self._idle(os.path.join(user.directory, file.name), file)
        if self.root is not None:
            project = target_of(self.profile, self.root, home, environ)
            if os.path.realpath(project.directory) != os.path.realpath(user.directory):
                self._scope(PROJECT, project, files_of(self.profile, project.directory)[0])
            self._scope(LOCAL, project, self.profile.aside)
        self._of_plugins(user)
        return self._command(user)

    def install(self, scope: str) -> str:
        """The command that writes the hooks of a scope anew, as they are meant to be."""
        tier = next((item.tier for item in self.scopes if item.scope == scope), "")
        if tier == PARTLY:
            events = {event for item in self.scopes if item.scope == scope for event in (*item.events, *item.missing)}
            tier, _ = tier_of(self.profile, events)
        words = ["casrewind install", self.profile.name]
        if tier in TIERS and tier != (self.configured or USUAL_TIER):
            words.append(f"--tier {tier}")
        if scope == PLUGIN:
            words.append("--plugin DIR")
        elif scope in (PROJECT, LOCAL):
            words.append("--scope project")
        return " ".join(words)

    def _scope(self, scope: str, target: Target, used: Sequence[File]) -> None:
        """Take in the hooks of one scope. Of its files the client takes an event from the first that says something of it."""
        said: dict[str, str] = {}
        for file in used:
            path = os.path.join(target.directory, file.name)
            text = self._text(path, file, always=file is used[0] and scope != LOCAL)
            if text is None:
                continue
            if settings.is_off(text, self.profile, file):
                self.problems.append(
                    f'"{self.profile.off}" is true in {fsio.show(path)}: {self.profile.title} runs no hooks at all; set it to false'
                )
            self._note_plugins(text)
            hooks = list(self._hooks(text, file, scope, path))
            hidden = [hook.event for hook in hooks if hook.event in said]
            self.hidden |= {(scope, event) for event in hidden}
            if hidden:
                self.problems.append(
                    f"{self.profile.title} does not run the hooks of {', '.join(once(hidden))} in {fsio.show(path)}, because "
                    f"{fsio.show(said[hidden[0]])} has other hooks for that; {self.install(scope)} puts them there"
                )
            self._add(scope, path, [hook for hook in hooks if hook.event not in said])
            for event in settings.says(text, file):
                said.setdefault(event, path)

    def _idle(self, path: str, file: File) -> None:
        """A file that the client does not look into because of another one."""
        text = self._text(path, file)
        if text is not None and any(self._hooks(text, file, USER, path)):
            self.problems.append(
                f"{self.profile.title} does not read {fsio.show(path)}, where hooks of casrewind's are; {self.install(USER)} "
                f"puts them where it does"
            )

    def _of_plugins(self, user: Target) -> None:
        """Take in the hooks of plugins that are installed and enabled."""
        there = plugin.installed(os.path.join(user.directory, self.profile.plugins)) if self.profile.plugins else {}
        for name in [name for name, enabled in self._plugins.items() if enabled]:
            for directory in there.get(name, ())[:1]:
                file = File(os.path.join("hooks", "hooks.json"), "hooks")
                path = os.path.join(directory, file.name)
                text = self._text(path, file, always=True)
                if text is not None:
                    self._add(PLUGIN, path, list(self._hooks(text, file, PLUGIN, path)))
                command = os.path.join(directory, "commands", plugin.COMMAND)
                if os.path.isfile(command):
                    self._commands.append(command)

    def _text(self, path: str, file: File, *, always: bool = False) -> str | None:
        """The text of settings that can matter; None when there are none, or when they cannot be read: that is a problem."""
        where = fsio.show(path)
        try:
            data = files.read(path).data
            words = (file.key, self.profile.off, "enabledPlugins")
            if data is None or not (always or not file.key or any(f'"{word}"'.encode() in data for word in words)):
                return None
            text = data.decode("utf-8-sig")
            text = text if text.strip() else "{}"
            settings.check(text, file, where)
        except UnicodeDecodeError as error:
            self.problems.append(f"{where} is not UTF-8 ({error.reason}), so the client may not read it: mend it, then try again")
            return None
        except errors.AgentError as error:
            self.problems.append(_complaint(error))
            return None
        return text

    def _hooks(self, text: str, file: File, scope: str, path: str) -> Iterator[Hook]:
        document = jsontext.parse(text)
        events = document.get(file.key, {}) if file.key else document
        for event, groups in events.items():
            for group in groups if isinstance(groups, list) else ():
                inside = group.get("hooks") if isinstance(group, dict) else None
                for hook in inside if isinstance(inside, list) else ():
                    if ours.is_ours(hook, self.profile.name):
                        found = _hook(scope, path, event, hook, posted=ours.is_posted(hook, self.profile.name))
                        yield found._replace(as_ours={**group, "hooks": [hook]} in self._wanted(event))

    def _wanted(self, event: str) -> list[dict[str, Any] | None]:
        """What an installation may write for an event."""
        return [ours.groups(self.profile, TIERS[-1], resident=resident).get(event) for resident in (False, True)]

    def _note_plugins(self, text: str) -> None:
        enabled = jsontext.parse(text).get("enabledPlugins")
        if self.profile.plugins and isinstance(enabled, dict):
            self._plugins |= {name: value is True for name, value in enabled.items() if plugin.is_name(name)}

    def _add(self, scope: str, path: str, hooks: list[Hook]) -> None:
        if not hooks:
            return
        self.hooks += hooks
        events = once(hook.event for hook in hooks)
        others = {event for item in self.scopes if item.scope == scope for event in item.events}
        tier, missing = tier_of(self.profile, {*events, *others})
        self.scopes = [item._replace(tier=tier, missing=missing) if item.scope == scope else item for item in self.scopes]
        resident = any(ours.is_resident(" ".join(hook.words)) for hook in hooks)
        self.scopes.append(Scope(scope, path, tier, tuple(events), missing, resident))

    def _command(self, user: Target) -> str | None:
        """The file of the `/casrewind` command; that there is none is a problem where hooks could answer it."""
        if self.profile.commands is None:
            return None
        places = [user.directory, *([os.path.join(self.root, self.profile.home)] if self.root is not None else [])]
        for path in [os.path.join(place, self.profile.commands, plugin.COMMAND) for place in places]:
            try:
                data = files.read(path).data
            except errors.AgentError as error:
                self.problems.append(_complaint(error))
                continue
            if data is not None and plugin.MARK in data:
                return path
            if data is not None:
                self.notes.append(f"{fsio.show(path)} is a command of your own, so /casrewind in the client is that")
                return None
        if self._commands:
            return self._commands[0]
        if self.hooks:
            self.problems.append(f"/casrewind is missing in {self.profile.title}: {self.install(self.hooks[0].scope)} puts it there")
        return None


def _hook(scope: str, path: str, event: str, hook: Mapping[str, Any], *, posted: bool) -> Hook:
    line, arguments = ours.line_of(hook), hook.get("args")
    timeout: Any = hook.get("timeout")
    try:
        words = tuple(shlex.split(ours.bare(line)))
    except ValueError:
        words = ()
    if isinstance(arguments, list):  # no shell is between
        words = tuple(word for word in (hook.get("command"), *arguments) if isinstance(word, str))
    seconds = float(timeout) if type(timeout) in (int, float) and timeout > 0 else _TIMEOUT
    guarded = ours.is_guarded(line) and not isinstance(arguments, list)
    return Hook(scope, path, event, line, words, seconds, as_ours=False, posted=posted, guarded=guarded)


def _complaint(error: errors.AgentError) -> str:
    """What is wrong with a file that was only to be looked at."""
    said = str(error).removesuffix("; nothing was changed")
    return said if said.endswith("try again") else f"{said}: mend that, then try again"


def once(items: Iterable[str]) -> list[str]:
    """Each of them once, in their order."""
    return list(dict.fromkeys(items))
