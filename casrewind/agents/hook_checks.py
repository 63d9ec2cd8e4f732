"""Finds our hooks in a client's settings, and their problems. Each problem is a sentence that suggests the next step.

The first danger prevented here: the user believes that hooks save, and they do not. A hook's interpreter may be gone. A
hook may be edited, hidden by other settings, or switched off. The client reports none of this.

The second danger: running a stranger's program. A cloned project may contain settings and a program that they name. So
a hook that does not run this very casrewind is reported, but never run. This module writes nothing.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .. import errors, fsio, locations
from .._typing import NamedTuple
from ..messages import enumerated, printable
from . import claude_plugin, extension, json_edit, settings_edit, settings_files
from .client import TIERS, USUAL_TIER, Client, HookFile
from .hook_records import LOCAL, PLUGIN, PROJECT, USER, InstalledHook, distinct
from .install import make_target

PARTLY = "partly"
"""The tier of hooks that are no whole tier."""
_TIMEOUT = 60.0  # the client's default hook timeout
_PLUGIN_FILE = HookFile(os.path.join("hooks", "hooks.json"), "hooks")


class HookScope(NamedTuple):
    """A settings file with active hooks of ours. `tier` is their tier, or PARTLY if events are `missing` from it."""

    scope: str
    settings: str
    tier: str
    events: tuple[str, ...]
    missing: tuple[str, ...]


class ClientHooks(NamedTuple):
    """The hooks of ours in a client's settings, and what is wrong with them."""

    client: Client
    """The client."""
    scopes: tuple[HookScope, ...]
    """The settings files with active hooks."""
    hooks: tuple[InstalledHook, ...]
    """The active hooks."""
    tried: tuple[InstalledHook, ...]
    """The hooks that can be run for a trial."""
    command: str | None
    """The file of the `/casrewind` command, or None."""
    problems: tuple[str, ...]
    """Sentences with the next step."""
    notes: tuple[str, ...]
    """Sentences that need no action."""


class ClientHere(NamedTuple):
    """A client that seems to be installed. `program`: its path, None if it is not on the PATH. `directory`: its
    settings directory, None if that is missing. `connected`: it has hooks of ours for the user."""

    client: Client
    program: str | None
    directory: str | None
    connected: bool


def read_and_check_hooks(client: Client, root: str | None, home: str, environ: Mapping[str, str], tier: str) -> ClientHooks:
    """Read a client's settings: the user's and, with a `root`, the project's. `tier` is the configured tier."""
    found = _Settings(client, root, tier)
    command = found.read_all_scopes(home, environ)
    tried = found.add_problems()
    return ClientHooks(client, found.active_scopes(), tuple(found.hooks), tuple(tried), command, tuple(found.problems), tuple(found.notes))


def find_clients(home: str, environ: Mapping[str, str]) -> list[ClientHere]:
    """The clients that are there. Runs no program."""
    from .. import programs
    from . import load_clients

    found = []
    for client in load_clients():
        if client.prints_hooks_only:
            continue
        program = programs.find_program(client.program, environ)
        directory = client.find_home(home, environ)
        there = directory if os.path.isdir(directory) else None
        if program is not None or there is not None:
            hooks = read_and_check_hooks(client, None, home, environ, "").hooks
            found.append(ClientHere(client, program, there, connected=bool(hooks)))
    return found


def find_missing_hook_files(client: Client, root: str | None, home: str, environ: Mapping[str, str]) -> tuple[bool, list[str]]:
    """Returns (True if the client has hooks of ours, sentences about hooks with missing files, each with the next
    step). They cover a client's settings for the user and for the project `root`."""
    found = _Settings(client, root, "")
    found.read_all_scopes(home, environ)
    return bool(found.hooks), [problem for hooks in found.hooks_by_file() for problem in found.problem_of_missing_files(hooks)]


def how_to_connect(root: str, home: str, environ: Mapping[str, str]) -> str:
    """What a person does so that a conversation is saved in the project `root`."""
    from . import load_clients

    connected = [client.title for client in load_clients() if find_missing_hook_files(client, root, home, environ)[0]]
    if not connected:
        return "casrewind install connects an agent's client"
    return f"{enumerated(connected)} {'is' if len(connected) == 1 else 'are'} connected: start a new session in this project"


def smallest_tier_with(client: Client, events: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Returns (the smallest tier with all these events, its other events). Unknown events do not count."""
    known = {hook.event for hook in client.settings.hooks}.intersection(events)
    wanted = {tier: [hook.event for hook in client.hooks_of(tier)] for tier in TIERS}
    tier = next(tier for tier in TIERS if known.issubset(wanted[tier]))
    return tier, tuple(event for event in wanted[tier] if event not in known)


class _Settings:
    """The hooks in a client's settings, scope by scope, and their problems. `hooks` are active. `hidden` are (scope,
    event) of inactive hooks: another file has hooks for the same event."""

    def __init__(self, client: Client, root: str | None, tier: str) -> None:
        """Reads nothing yet. `root` is a project's root or None, `tier` the configured tier or ""."""
        self.client, self.root, self.configured = client, root, tier
        self.hooks: list[InstalledHook] = []
        self.hidden: set[tuple[str, str]] = set()
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._plugins: dict[str, bool] = {}

    def read_all_scopes(self, home: str, environ: Mapping[str, str]) -> str | None:
        """Read every scope. Returns the file of the `/casrewind` command."""
        if self.client.prints_hooks_only:
            return None
        user = make_target(self.client, None, home, environ).directory
        if self.client.settings.extension:
            project = None if self.root is None else make_target(self.client, self.root, home, environ).directory
            return self._read_extensions(user, project)
        used, idle = settings_files.used_and_ignored_files(self.client, user)
        self._read_scope(USER, user, used)
        for file in idle:
            self._read_ignored_file(user, file)
        commands = [user]
        if self.root is not None:
            project = make_target(self.client, self.root, home, environ).directory
            commands.append(project)
            if locations.real_path(project) != locations.real_path(user):
                self._read_scope(PROJECT, project, settings_files.used_and_ignored_files(self.client, project)[0])
            self._read_scope(LOCAL, project, self.client.settings.aside)
        there = self.client.find_plugins(user)
        plugins = [there[name][0] for name, enabled in self._plugins.items() if enabled and there.get(name)]
        for directory in plugins:
            self._read_scope(PLUGIN, directory, [_PLUGIN_FILE])
        return self._find_command_file(commands, plugins)

    def _read_extensions(self, user: str, project: str | None) -> str | None:
        """Read the user's and the project's extensions. Returns our first file if it has the `/casrewind` command."""
        for scope, directory in ((USER, user), (PROJECT, project)):
            if directory is None or (scope == PROJECT and locations.real_path(directory) == locations.real_path(user)):
                continue
            try:
                found = extension.read_our_extension(self.client, directory)
            except errors.AgentError as error:
                self.problems.append(_problem_in_words(error))
                continue
            if found is None:
                continue
            where = printable(found.path)
            if not found.is_intact:
                self.problems.append(f"{where} was edited since casrewind wrote it: move it away, then {self._install_line(scope)}")
            elif not found.is_current:
                self.notes.append(f"{where} is from another version of casrewind; {self._install_line(scope)} renews it")
            timeouts = {hook.event: hook.timeout for hook in self.client.settings.hooks}
            for event in found.events:
                words = (*found.command, "hook", self.client.name)
                seconds = float(timeouts.get(event, _TIMEOUT))
                self.hooks.append(
                    InstalledHook(
                        scope, found.path, event, shlex.join(words), words, seconds, as_ours=True
                    )
                )
        return self.hooks[0].settings if self.hooks and self.client.events.refusal else None

    def _read_scope(self, scope: str, directory: str, used: Sequence[HookFile]) -> None:
        """Read the hooks of one scope. For each event, the client uses the first file with hooks for it."""
        said: dict[str, str] = {}
        for file in used:
            path = os.path.join(directory, file.name)
            text = self._text_or_problem(directory, file, always=file is used[0] and scope != LOCAL)
            if switch := settings_edit.find_off_switch(text, self.client, file):
                wanted = "true" if switch.endswith("false") else "false"
                self.problems.append(
                    f"{switch} in {printable(path)}: {self.client.title} runs no hooks at all; set it to {wanted}"
                )
            enabled = json_edit.parse_with_comments(text).get("enabledPlugins")
            if isinstance(enabled, dict):
                self._plugins |= {name: value is True for name, value in enabled.items() if claude_plugin.is_our_plugin_name(name)}
            hooks = list(self._our_hooks_in(text, file, scope, path))
            hidden = [hook.event for hook in hooks if hook.event in said]
            self.hidden |= {(scope, event) for event in hidden}
            if hidden:
                self.problems.append(
                    f"{self.client.title} does not run the hooks of {', '.join(distinct(hidden))} in {printable(path)}, because "
                    f"{printable(said[hidden[0]])} has other hooks for that; {self._install_line(scope)} adds them"
                )
            self.hooks += [hook for hook in hooks if hook.event not in said]
            for event in settings_edit.events_in_settings(text, file):
                said.setdefault(event, path)

    def _read_ignored_file(self, directory: str, file: HookFile) -> None:
        """Read a file that the client ignores because of another file."""
        path = os.path.join(directory, file.name)
        if any(self._our_hooks_in(self._text_or_problem(directory, file), file, USER, path)):
            self.problems.append(
                f"{self.client.title} does not read {printable(path)}, where hooks of casrewind's are; {self._install_line(USER)} "
                f"puts them where it does"
            )

    def _text_or_problem(self, directory: str, file: HookFile, *, always: bool = False) -> str:
        """A settings file's text. A missing or irrelevant file counts as an empty object; so does an unreadable one (a
        problem)."""
        try:
            if always or settings_files.may_hold_hooks_or(directory, file, self.client.settings.off_key, "enabledPlugins"):
                return settings_files.read_changeable_document(self.client, directory, file, []).text
        except errors.AgentError as error:
            self.problems.append(_problem_in_words(error))
        return "{}"

    def _our_hooks_in(self, text: str, file: HookFile, scope: str, path: str) -> Iterator[InstalledHook]:
        document = json_edit.parse_with_comments(text)
        for event, groups in (document.get(file.key, {}) if file.key else document).items():
            written = claude_plugin.hooks_that_run_launcher if scope == PLUGIN else settings_edit.make_hook_entries
            wanted = [written(self.client, TIERS[-1]).get(event)]
            for group in groups if isinstance(groups, list) else ():
                inside = [group] if file.flat else group.get("hooks") if isinstance(group, dict) else None
                for hook in inside if isinstance(inside, list) else ():
                    if settings_edit.is_ours(hook, self.client.name):
                        found = _installed_hook(self.client, scope, path, event, hook)
                        yield found._replace(as_ours=(hook if file.flat else {**group, "hooks": [hook]}) in wanted)

    def _find_command_file(self, directories: Sequence[str], plugins: Sequence[str]) -> str | None:
        """The file of the `/casrewind` command. A missing command is a problem if there are hooks to answer it."""
        paths = [path for directory in directories if (path := self.client.slash_command_path(directory)) is not None]
        if not paths:
            return None
        for path in paths:
            try:
                data = settings_files.read_settings(path).data
            except errors.AgentError as error:
                self.problems.append(_problem_in_words(error))
                continue
            if data is not None and claude_plugin.MARK in data:
                return path
            if data is not None:
                self.notes.append(f"{printable(path)} is a command of your own, so /casrewind in the client is that")
                return None
        paths = [os.path.join(directory, "commands", claude_plugin.COMMAND) for directory in plugins]
        command = next((path for path in paths if os.path.isfile(path)), None)
        if self.hooks and command is None:
            self.problems.append(f"/casrewind is missing in {self.client.title}: {self._install_line(self.hooks[0].scope)} puts it there")
        return command

    def _install_line(self, scope: str) -> str:
        """The install command that rewrites the hooks of a scope."""
        events = {hook.event for hook in self.hooks if hook.scope == scope}
        tier = smallest_tier_with(self.client, events)[0] if events else ""
        words = ["casrewind install", self.client.name]
        if tier and tier != (self.configured or USUAL_TIER):
            words.append(f"--tier {tier}")
        words += {PLUGIN: ["--plugin DIR"], PROJECT: ["--scope project"], LOCAL: ["--scope project"]}.get(scope, [])
        return " ".join(words)

    def hooks_by_file(self) -> list[list[InstalledHook]]:
        """The hooks of each settings file."""
        return [[hook for hook in self.hooks if hook.settings == path] for path in distinct(hook.settings for hook in self.hooks)]

    def active_scopes(self) -> tuple[HookScope, ...]:
        """The settings files with active hooks. The files of one scope form one tier together."""
        found = []
        for hooks in self.hooks_by_file():
            scope = hooks[0].scope
            tier, missing = smallest_tier_with(self.client, [hook.event for hook in self.hooks if hook.scope == scope])
            events = tuple(distinct(hook.event for hook in hooks))
            found.append(HookScope(scope, hooks[0].settings, PARTLY if missing else tier, events, missing))
        return tuple(found)

    # -- problems

    def add_problems(self) -> list[InstalledHook]:
        """Add the problems of all hooks. Returns the hooks that can be tried."""
        scopes = self.active_scopes()
        for scope in distinct(item.scope for item in scopes):
            here = [item for item in scopes if item.scope == scope]
            missing = [event for event in here[0].missing if (scope, event) not in self.hidden]
            if missing:
                self.problems.append(
                    f"no hook for {', '.join(missing)} in {', '.join(printable(item.settings) for item in here)}: nothing is "
                    f"saved then; {self._install_line(scope)} puts it back"
                )
            events = [hook.event for hook in self.hooks if hook.scope == scope]
            twice = distinct(event for event in events if events.count(event) > 1)
            if twice:
                self.problems.append(
                    f"{printable(here[0].settings)} has more than one hook of casrewind's for {', '.join(twice)}; "
                    f"{self._install_line(scope)} "
                    f"leaves one"
                )
        self._note_double_hooks(scopes)
        self._add_problems_of_tier()
        return [hook for hooks in self.hooks_by_file() for hook in self._add_problems_of_file(hooks)]

    def _note_double_hooks(self, scopes: Sequence[HookScope]) -> None:
        """Add a problem if an event has a hook in several settings files, with what removes all but one."""
        pairs = {(hook.scope, hook.event) for hook in self.hooks}
        if len({event for _, event in pairs}) == len(pairs):
            return
        places = {item.scope: item.settings for item in reversed(scopes)}
        stays = next((scope for scope in (PLUGIN, USER) if scope in places), PROJECT)
        uninstall = f"casrewind uninstall {self.client.name}"
        ways = {USER: uninstall, PROJECT: f"{uninstall} --scope project", LOCAL: f"take them out of {places.get(LOCAL)} by hand"}
        order = distinct(item.scope for item in scopes)
        where = " and in ".join(f"{printable(places[scope])} ({scope})" for scope in order)
        remedy = " and ".join(printable(ways[scope]) for scope in order if scope != stays)
        self.problems.append(f"hooks are there more than once, so an event may be saved more than once: in {where}; to fix that: {remedy}")

    def _add_problems_of_tier(self) -> None:
        known = {hook.event: self.client.lowest_tier_of(hook.event) for hook in self.hooks if hook.event in self.client.events.triggers}
        most = TIERS.index(self.configured or TIERS[-1])
        idle = [event for event, tier in known.items() if TIERS.index(tier) > most]
        if idle:
            wanted = max((known[event] for event in idle), key=TIERS.index)
            self.problems.append(
                f"the hooks of {', '.join(idle)} do nothing, because the configured tier is {self.configured}: set tier = "
                f'"{wanted}" under [hooks] in config.toml, or casrewind install {self.client.name} --tier {self.configured}'
            )
        unknown = distinct(hook.event for hook in self.hooks if hook.event not in self.client.events.triggers)
        if unknown:
            self.notes.append(f"casrewind does nothing at {', '.join(unknown)}, where it has a hook")

    def _add_problems_of_file(self, hooks: list[InstalledHook]) -> list[InstalledHook]:
        where, install = printable(hooks[0].settings), self._install_line(hooks[0].scope)
        self.problems += self.problem_of_missing_files(hooks)
        there = [hook for hook in hooks if not _missing_files(hook.words)]
        own = [hook for hook in there if _runs_this_casrewind(self.client, hook)]
        for line in distinct(hook.line for hook in there if hook not in own):
            self.problems.append(
                f"a hook in {where} was not tried, because it does not run this casrewind, and settings may be a stranger's: "
                f"{printable(line)}; {install} rewrites it"
            )
        other = distinct(hook.event for hook in own if not hook.as_ours)
        if other:
            self.notes.append(
                f"the hooks of {', '.join(other)} in {where} are not as this casrewind writes them (of another version, or edited); "
                f"{install} would make them so"
            )
        return own

    def problem_of_missing_files(self, hooks: list[InstalledHook]) -> Iterator[str]:
        """The problem of hooks in one file with a missing interpreter or script."""
        if paths := distinct(path for hook in hooks for path in _missing_files(hook.words)):
            are, named = "are" if len(paths) > 1 else "is", " and ".join(map(printable, paths))
            yield (
                f"the hooks in {printable(hooks[0].settings)} name {named}, which {are} missing; "
                f"{self._install_line(hooks[0].scope)} rewrites them"
            )


def _installed_hook(client: Client, scope: str, path: str, event: str, hook: Mapping[str, object]) -> InstalledHook:
    line, arguments = settings_edit.command_line_of(hook), hook.get("args")
    timeout = hook.get("timeout")
    try:
        words = tuple(shlex.split(settings_edit.without_guard(line)))
    except ValueError:
        words = ()
    if scope == PLUGIN:
        words = tuple(word.replace(claude_plugin.ROOT, os.path.dirname(os.path.dirname(path))) for word in words)
    if isinstance(arguments, list):  # it runs without a shell
        words = tuple(word for word in (hook.get("command"), *arguments) if isinstance(word, str))
    seconds = _TIMEOUT
    if isinstance(timeout, (int, float)) and timeout is not True and timeout > 0:
        seconds = float(timeout) / client.settings.timeout_unit
    return InstalledHook(scope, path, event, line, words, seconds, as_ours=False)


def _runs_this_casrewind(client: Client, hook: InstalledHook) -> bool:
    """True if a hook runs this casrewind with this interpreter and nothing else, or the plugin's launcher."""
    if hook.scope == PLUGIN and hook.as_ours:
        return _is_launcher_as_written(hook.words[1])
    words = [word for word in hook.words if word != settings_edit.RESIDENT]
    own = settings_edit.hook_command(client.name, client.event_argument(hook.event))
    return words == own and settings_edit.without_guard(hook.line) == shlex.join(hook.words)


def _is_launcher_as_written(launcher: str) -> bool:
    """True if the launcher of a plugin is as casrewind writes it."""
    try:
        return fsio.read_file(launcher, 1 << 16) == claude_plugin.launcher_script()
    except OSError:
        return False


def _missing_files(words: Sequence[str]) -> list[str]:
    """The interpreter and script in one of our command lines that do not exist."""
    named = [word for word in words[:1] if word.startswith("/")]
    named += [word for word in words[1:] if word.startswith("/") and word.endswith(("/__main__.py", f"/{claude_plugin.LAUNCHER}"))]
    return [path for path in named if not os.path.isfile(path)]


def _problem_in_words(error: errors.AgentError) -> str:
    return f"{error.problem.removesuffix('; nothing was changed')}: {error.hint or 'fix that, then try again'}"
