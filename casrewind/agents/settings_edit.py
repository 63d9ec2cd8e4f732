"""Our hooks in the text of a client's settings: how to write, recognise, add and remove them. Reads and writes no
files.

The dangers prevented here: another program's hook is lost or moved, or a hook of ours outlives its interpreter. The
worst danger: a hook exits with code 2. Clients read 2 as "block", and Python exits with 2 when it cannot open a script.
So a hook's command line has a guard: the shell exits with 0 even without the interpreter or the script.
"""

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping

from .. import errors, launch
from .._typing import NamedTuple
from ..fastjson import JsonObject
from ..messages import printable
from . import json_edit
from .client import Client, Hook, HookFile
from .json_edit import ExactValue, JsonItem, Removal

RESIDENT = "--resident"
"""An option of hooks that earlier versions wrote, for a background helper that is gone. `casrewind hook` skips it, and the
next `install` removes it."""
_GUARD = "2>/dev/null || :"
"""The end of a command line: it hides error output and makes the exit code 0."""


def hook_command(agent: str, event: str = "") -> list[str]:
    """The command that a client runs at its events. The interpreter's path is absolute, because a client's PATH may be
    short. `event`: the event's name, for a client that sends payloads without it."""
    return [*launch.own_command(), "hook", agent, *([event] if event else [])]


def without_guard(line: str) -> str:
    """A hook's command line without the guard."""
    return line.strip().removesuffix(_GUARD).rstrip()


def is_ours(hook: object, agent: str) -> bool:
    """True if casrewind wrote this hook in a client's settings, for any interpreter."""
    if not isinstance(hook, dict):
        return False
    words = rf"casrewind.*\shook\s+{agent}(\s+[A-Za-z]\w+)?(\s+{RESIDENT})?$"
    return re.search(words, without_guard(command_line_of(hook)), re.DOTALL) is not None


def command_line_of(hook: Mapping[str, object]) -> str:
    """The command line of a hook in a client's settings."""
    arguments = hook.get("args")
    words = [hook.get("command"), *(arguments if isinstance(arguments, list) else [])]
    return " ".join(word for word in words if isinstance(word, str))


def make_hook_entries(client: Client, tier: str) -> dict[str, JsonObject]:
    """{event: our hook's entry in the client's settings}."""
    found: dict[str, JsonObject] = {}
    for hook in client.hooks_of(tier):
        run = _hook_json(client, hook)
        if any(file.flat for file in client.settings.files):
            found[hook.event] = run
            continue
        found[hook.event] = {**({} if hook.matcher is None else {"matcher": hook.matcher}), "hooks": [run]}
    return found


def _hook_json(client: Client, hook: Hook) -> JsonObject:
    words = hook_command(client.name, client.event_argument(hook.event))
    return {"type": "command", "command": f"{shlex.join(words)} {_GUARD}", "timeout": hook.timeout * client.settings.timeout_unit}


def refuse_unsafe(text: str, client: Client, file: HookFile, where: str) -> list[str]:
    """Raise AgentError for settings that cannot be changed safely. Returns notes about harmless oddities. `where` names
    the file in messages."""
    try:
        value = json_edit.parse_with_comments(text)
        repeated = json_edit.repeated_keys(text)
        if not file.comments and json_edit.blank_comments(text) != text:
            raise ValueError("it has comments")
    except RecursionError:
        raise errors.AgentError(f"{where} is nested too deeply to be read; nothing was changed") from None
    except ValueError as error:
        if file.comments:
            raise errors.AgentError(f"{where} is not JSON with comments ({error}); nothing was changed", "fix it, then try again") from None
        raise errors.AgentError(
            f"{where} is not strict JSON ({error}). The client reads no comments, trailing commas or mistakes there; nothing was changed",
            "fix it, then try again",
        ) from None
    if not isinstance(value, dict):
        raise errors.AgentError(f"{where} is not a JSON object; nothing was changed", "fix it, then try again")
    if file.key and not isinstance(value.get(file.key, {}), dict):
        raise errors.AgentError(f'"{file.key}" in {where} is not a JSON object; nothing was changed', "fix it, then try again")
    _refuse_repeated_keys(
        [item.key for item in json_edit.container_items(text, json_edit.value_start(text)) if item.key == file.key], where
    )
    known = {hook.event for hook in client.settings.hooks}
    events = [item for item in _event_items(text, file) if item.key in known]
    _refuse_repeated_keys([item.key for item in events], where)
    for item in events:
        if text[item.value] != "[":
            raise errors.AgentError(f'"{item.key}" in {where} is not a list of hooks: fix it, then try again; nothing was changed')
    return [f"{key!r} occurs twice in {where}; the client reads the last one" for key in map(printable, repeated)]


def _refuse_repeated_keys(keys: list[str], where: str) -> None:
    for key in keys:
        if keys.count(key) > 1:
            raise errors.AgentError(
                f'"{printable(key)}" occurs twice in {where}, and the client reads only the last; nothing was changed',
                "merge them, then try again",
            )


def find_off_switch(text: str, client: Client, file: HookFile) -> str:
    """How settings switch all of the client's hooks off; "" if they do not."""
    value = json_edit.parse_with_comments(text)
    return client.find_off_switch(value, value.get(file.key, {}) if file.key else value)


def events_in_settings(text: str, file: HookFile) -> set[str]:
    """The events in the settings."""
    return {item.key for item in _event_items(text, file)}


def _position_of_hooks(text: str, file: HookFile) -> int | None:
    start = json_edit.value_start(text)
    if not file.key:
        return start
    return next((item.value for item in json_edit.container_items(text, start) if item.key == file.key), None)


def _event_items(text: str, file: HookFile) -> list[JsonItem]:
    start = _position_of_hooks(text, file)
    return [] if start is None else json_edit.container_items(text, start)


class OurHooks(NamedTuple):
    """The positions of our hooks: for each event its groups, and for each group its hooks and the indices of ours."""

    events: list[JsonItem]
    groups: dict[int, list[JsonItem]]
    hooks: dict[tuple[int, int], list[JsonItem]]
    ours: dict[tuple[int, int], list[int]]


def _find_our_hooks(text: str, file: HookFile, agent: str) -> OurHooks:
    found = OurHooks(_event_items(text, file), {}, {}, {})
    for number, event in enumerate(found.events):
        if text[event.value] != "[":
            continue
        found.groups[number] = json_edit.container_items(text, event.value)
        for position, group in enumerate(found.groups[number]):
            if file.flat:
                found.hooks[number, position] = [group]
                if is_ours(json_edit.value_at(text, group.value), agent):
                    found.ours[number, position] = [0]
                continue
            for member in json_edit.container_items(text, group.value) if text[group.value] == "{" else []:
                if member.key == "hooks" and text[member.value] == "[":
                    place = number, position
                    found.hooks[place] = json_edit.container_items(text, member.value)
                    values = [json_edit.value_at(text, item.value) for item in found.hooks[place]]
                    ours = [index for index, value in enumerate(values) if is_ours(value, agent)]
                    if ours:
                        found.ours[place] = ours
    return found


def events_with_our_hooks(text: str, file: HookFile, agent: str) -> list[str]:
    """The events with a hook of ours, each once, in the order of the file."""
    found = _find_our_hooks(text, file, agent)
    return list(dict.fromkeys(found.events[number].key for number, _ in found.ours))


def without_our_hooks(text: str, file: HookFile, agent: str, before: str | None = None, stay: Collection[str] = ()) -> str:
    """The settings without our hooks (except for the events `stay`) and without lists and objects that only they
    needed. Empty lists and objects in `before`, the settings before the first installation, are kept."""
    found = _find_our_hooks(text, file, agent)
    pieces: list[Removal] = []
    gone_events: set[int] = set()
    had = set() if before is None else {item.key for item in _event_items(before, file)}
    for number, event in enumerate(found.events):
        gone_groups: set[int] = set()
        for position in range(len(found.groups.get(number, []))) if event.key not in stay else ():
            ours = found.ours.get((number, position), [])
            if ours and len(ours) == len(found.hooks[number, position]):
                gone_groups.add(position)
            elif ours:
                pieces += json_edit.cuts_of_items(text, found.hooks[number, position], ours)
        if gone_groups and len(gone_groups) == len(found.groups[number]):
            if event.key in had:
                pieces.append(json_edit.cut_of_all_items(text, found.groups[number]))
            else:
                gone_events.add(number)
        elif gone_groups:
            pieces += json_edit.cuts_of_items(text, found.groups[number], gone_groups)
    if gone_events and len(gone_events) == len(found.events):
        return json_edit.cut_pieces(text, _cuts_of_all_events(text, file, found.events, before))
    if gone_events:
        pieces += json_edit.cuts_of_items(text, found.events, gone_events)
    return json_edit.cut_pieces(text, pieces)


def _cuts_of_all_events(text: str, file: HookFile, events: list[JsonItem], before: str | None) -> list[Removal]:
    """The cuts that remove all events. They also remove the object that holds the events, if `before` lacks it."""
    members = json_edit.container_items(text, json_edit.value_start(text))
    keys = [item.key for item in members]
    if not file.key or (before is not None and _position_of_hooks(before, file) is not None):
        return [json_edit.cut_of_all_items(text, events)]
    if len(members) == 1:
        return [json_edit.cut_of_all_items(text, members)]
    return json_edit.cuts_of_items(text, members, [keys.index(file.key)])


def with_our_hooks(text: str, file: HookFile, agent: str, wanted: Mapping[str, object], before: str | None) -> str:
    """The settings with the groups `wanted` (by event) and no other hooks of ours. Correct hooks are not rewritten.
    `before`: the settings before the first installation, if known."""
    found = _find_our_hooks(text, file, agent)
    right: set[str] = set()
    for number, event in enumerate(found.events):
        ours = [(position, indices) for (owner, position), indices in found.ours.items() if owner == number]
        if len(ours) == 1 and len(ours[0][1]) == 1:
            value = json_edit.value_at(text, found.groups[number][ours[0][0]].value)
            if event.key in wanted and _same_in_any_order(value, wanted[event.key]):
                right.add(event.key)
    text = without_our_hooks(text, file, agent, before, stay=right)
    for name, group in wanted.items():
        if name in right:
            continue
        if _position_of_hooks(text, file) is None:
            text = json_edit.append_item(text, json_edit.value_start(text), {}, file.key)
        start = _position_of_hooks(text, file)
        assert start is not None
        place = next((item.value for item in json_edit.container_items(text, start) if item.key == name), None)
        text = json_edit.append_item(text, start, [group], name) if place is None else json_edit.append_item(text, place, group)
    return text


def _same_in_any_order(one: object, other: object) -> bool:
    """Equal except for the order of keys; 1 and true differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def rest_for_comparison(text: str, file: HookFile, agent: str) -> object:
    """Everything that is not ours, for exact comparison: order, duplicate keys, number formats and comments count."""
    kind, pairs = json_edit.value_for_exact_comparison(text)
    remarks = json_edit.comments(text)
    if not file.key:
        return kind, remarks, _foreign_events(pairs, agent, flat=file.flat)
    return kind, remarks, tuple(
        (key, (value[0], _foreign_events(value[1], agent, flat=file.flat))) if key == file.key else (key, value)
        for key, value in pairs
        if key != file.key or _foreign_events(value[1], agent, flat=file.flat)
    )


def _foreign_events(pairs: ExactValue, agent: str, *, flat: bool) -> tuple[object, ...]:
    return tuple(
        (event, found) for event, value in pairs
        if (found := list(_foreign_groups(value, agent, flat=flat)) if isinstance(value, list) else value) != []
    )  # fmt: skip


def _foreign_groups(value: list[ExactValue], agent: str, *, flat: bool) -> Iterator[object]:
    for group in value:
        if flat:
            if not is_ours(_as_plain_dict(group), agent):
                yield group
            continue
        if not (isinstance(group, tuple) and group[0] == "object"):
            yield group
            continue
        members = []
        for key, hooks in group[1]:
            if key == "hooks" and isinstance(hooks, list):
                others = [hook for hook in hooks if not is_ours(_as_plain_dict(hook), agent)]
                members.append((key, others if len(others) < len(hooks) else hooks))
            else:
                members.append((key, hooks))
        if not any(key == "hooks" and hooks == [] for key, hooks in members):
            yield members


def _as_plain_dict(exact: ExactValue) -> object:
    return dict(exact[1]) if isinstance(exact, tuple) and exact[0] == "object" else exact
