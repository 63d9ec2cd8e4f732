"""Install and uninstall: add our hooks to a client's settings, or remove them, and change nothing else.

The first installation keeps a backup of the settings next to them. An uninstallation restores exactly these bytes if
only our hooks were added since.
"""

import os
import shutil
from collections.abc import Callable, Mapping

from .. import errors, fsio, locations
from .._typing import NamedTuple, TypeVar
from ..messages import printable
from . import claude_plugin, extension, json_edit, settings_edit, settings_files
from .client import Client, Hook
from .hook_records import PROJECT, USER
from .settings_edit import make_hook_entries
from .settings_files import BACKUP, Document, SettingsFile, read_changeable_document, read_used_documents

_TRIES = 5
_T = TypeVar("_T")


class Target(NamedTuple):
    """Where to install: the client, the scope, and its settings directory. `root`: the project, for that scope."""

    client: Client
    scope: str
    directory: str
    root: str = ""


class Written(NamedTuple):
    """One settings file: whether it changed, the path of its `backup` (install), and whether the original bytes are
    `restored` (uninstall). A file that did not exist before is removed, which counts as restored."""

    path: str
    changed: bool
    backup: str | None = None
    restored: bool = False


class Installed(NamedTuple):
    """The result of an installation."""

    target: Target
    """Where it was."""
    tier: str
    """The tier of the hooks."""
    written: tuple[Written, ...]
    """The settings files."""
    hooks: tuple[tuple[str, Hook], ...]
    """Pairs of a settings file and a hook in it."""
    command: str | None
    """The file of the `/casrewind` command, or None."""
    command_changed: bool
    """A file of a command was written."""
    program: str | None
    """The client's path, None if it is not on the PATH."""
    notes: tuple[str, ...]
    """What the user should know."""
    failed: tuple[str, ...]
    """What was not done."""
    short_command: str | None = None
    """The file of the `/back` command, or None."""

    @property
    def changed(self) -> bool:
        """True if anything was written."""
        return self.command_changed or any(item.changed for item in self.written)


class Uninstalled(NamedTuple):
    """The result of an uninstallation: `events` that had a hook of ours; `command` and `short_command` are the removed
    files, or None."""

    target: Target
    written: tuple[Written, ...]
    events: tuple[str, ...]
    command: str | None
    notes: tuple[str, ...]
    short_command: str | None = None


def make_target(client: Client, root: str | None, home: str, environ: Mapping[str, str]) -> Target:
    """The target for a client in a project, or for the user if `root` is None."""
    if root is not None:
        return Target(client, PROJECT, os.path.join(root, client.places.project_home or client.places.home), root)
    return Target(client, USER, client.find_home(home, environ))


def install(
    target: Target,
    tier: str,
    environ: Mapping[str, str],
    *,
    short: bool = False,
) -> Installed:
    """Put the hooks of a tier into a client's settings, replacing those of an earlier installation. `short`: also the command
    `/back`; that of an earlier installation stays. Raises AgentError for settings that cannot be changed safely, UnsafePath for
    links out of the project, StoreBusy, StoreFull; then nothing was changed."""
    _refuse_escaping_links(target)
    if target.client.settings.extension:
        return _install_extension(target, tier, environ)
    with settings_files.installation_lock(target.directory, 0o700 if target.scope == USER else settings_files.SHARED):
        notes: list[str] = []
        written, hooks = _retry_if_file_changed(lambda: _install_hooks(target, tier, notes))
        command, back = _install_command(target), _install_short_command(target, is_wanted=short)
    program = shutil.which(target.client.program, path=environ.get("PATH"))
    steps = target.client.next_steps() if any(item.changed for item in written) else ()
    notes += [*command.notes, *back.notes, *steps]
    is_changed = command.is_changed or back.is_changed
    failed = (*command.failed, *back.failed)
    return Installed(target, tier, written, hooks, command.path, is_changed, program, tuple(dict.fromkeys(notes)), failed, back.path)


def uninstall(target: Target) -> Uninstalled:
    """Remove our hooks, of any tier and interpreter, and our command. Raises AgentError for settings that cannot be
    changed safely, UnsafePath for links out of the project, StoreBusy, StoreFull; then nothing was changed."""
    _refuse_escaping_links(target)
    if not os.path.isdir(target.directory):
        return Uninstalled(target, (), (), None, ())
    if target.client.settings.extension:
        return _uninstall_extension(target)
    with settings_files.installation_lock(target.directory, 0o700):
        written, events, notes = _retry_if_file_changed(lambda: _uninstall_hooks(target))
        command, said = _remove_command(target.client.slash_command_path(target.directory), "/casrewind")
        back, more = _remove_command(target.client.short_command_path(target.directory), "/back")
    if target.scope == PROJECT:
        settings_files.remove_if_empty(target.directory)
    return Uninstalled(target, written, events, command, (*notes, *said, *more), back)


def _refuse_escaping_links(target: Target) -> None:
    """Raise UnsafePath if the project leads one of the places that are written out of itself: a clone can bring a link.
    The user's own settings may be links: many people keep theirs in another directory."""
    if target.scope != PROJECT:
        return
    client = target.client
    names = [name for file in client.settings.files for name in (file.name, file.name + BACKUP)]
    names += [client.settings.extension] if client.settings.extension else []
    root = locations.real_path(target.root)
    paths = [target.directory, *(os.path.join(target.directory, name) for name in names)]
    paths += filter(None, [client.slash_command_path(target.directory), client.short_command_path(target.directory)])
    for path in paths:
        real = locations.real_path(path)
        if not locations.is_in(real, root):
            raise errors.UnsafePath(
                f"{printable(path)} leads out of the project, to {printable(real)}; nothing was changed",
                f"remove that link, or connect the agent for yourself: casrewind install {client.name}",
            )


def _install_extension(target: Target, tier: str, environ: Mapping[str, str]) -> Installed:
    """As `install`, for a client that loads an extension."""
    client, is_user = target.client, target.scope == USER
    with settings_files.installation_lock(target.directory, 0o700 if is_user else settings_files.SHARED):
        data = extension.extension_bytes(client, tier)
        changed = _retry_if_file_changed(lambda: extension.install_extension(client, target.directory, data, 0o600 if is_user else 0o644))
    path = extension.extension_path(client, target.directory)
    hooks = tuple((path, hook) for hook in client.hooks_of(tier))
    program = shutil.which(client.program, path=environ.get("PATH"))
    written = (Written(path, changed),)
    return Installed(target, tier, written, hooks, path, False, program, (), ())


def _uninstall_extension(target: Target) -> Uninstalled:
    """As `uninstall`, for a client that loads an extension."""
    with settings_files.installation_lock(target.directory, 0o700):
        removed = _retry_if_file_changed(lambda: extension.uninstall_extension(target.client, target.directory))
    if target.scope == PROJECT:
        settings_files.remove_if_empty(target.directory)
    if removed is None:
        return Uninstalled(target, (), (), None, ())
    path, events = removed
    return Uninstalled(target, (Written(path, changed=True, restored=True),), events, path, ())


def _retry_if_file_changed(work: Callable[[], _T]) -> _T:
    """Run `work` again if the client wrote to the file at the same time."""
    for _ in range(_TRIES):
        try:
            return work()
        except settings_files.FileChanged:
            continue
    raise errors.AgentError("the client keeps writing to its settings; nothing was changed", "close it, then try again")


def _install_hooks(target: Target, tier: str, notes: list[str]) -> tuple[tuple[Written, ...], tuple[tuple[str, Hook], ...]]:
    documents = read_used_documents(target.client, target.directory, notes)
    agent = target.client.name
    place: dict[str, Document] = {}
    for document in reversed(documents):  # for each event, the client uses the first file with hooks for it
        said = settings_edit.events_in_settings(
            settings_edit.without_our_hooks(document.text, document.file, agent, document.before), document.file
        )
        place.update(dict.fromkeys(said, document))
    wanted = make_hook_entries(target.client, tier)
    results: list[tuple[Document, str]] = []
    for document in documents:
        mine = {event: group for event, group in wanted.items() if place.get(event, documents[0]) is document}
        text = settings_edit.with_our_hooks(document.text, document.file, agent, mine, document.before)
        _check_nothing_else_changes(document, text, agent)
        if text != document.text:
            settings_files.check_writable(document.present)
        results.append((document, text))
    written = []
    for document, text in results:
        if text != document.text:
            if document.present.data is not None and not document.ours:
                _replace_backup(document)
            settings_files.replace_if_unchanged(document.present, document.encode_with_mark(text), 0o600 if target.scope == USER else 0o644)
        kept = document.present.path + BACKUP
        if text != document.text or settings_edit.events_with_our_hooks(text, document.file, agent):
            backup = kept if os.path.lexists(kept) else None
            written.append(Written(document.present.path, text != document.text, backup))
    hooks = [(place.get(hook.event, documents[0]).present.path, hook) for hook in target.client.hooks_of(tier)]
    return tuple(written), tuple(hooks)


def _replace_backup(document: Document) -> None:
    """Back up the original bytes. The backup is never readable by more users than the settings."""
    assert document.present.data is not None
    if document.backup.data != document.present.data:
        directory, name = os.path.split(document.backup.path)
        place = document.backup._replace(target=os.path.join(os.path.realpath(directory), name), status=None)
        settings_files.replace_if_unchanged(place, document.present.data, 0o600, like=document.present.status)


def _check_nothing_else_changes(document: Document, text: str, agent: str) -> None:
    """Raise RuntimeError if anything that is not ours would change: the user would lose settings."""
    if settings_edit.rest_for_comparison(document.text, document.file, agent) != settings_edit.rest_for_comparison(
        text, document.file, agent
    ):
        raise RuntimeError(f"{document.present.path} would have lost something that is not ours; nothing was changed")


def _uninstall_hooks(target: Target) -> tuple[tuple[Written, ...], tuple[str, ...], list[str]]:
    agent = target.client.name
    notes: list[str] = []
    documents = []
    for file in target.client.settings.files:
        present = settings_files.read_settings(os.path.join(target.directory, file.name))
        is_ours = present.data is not None and b"casrewind" in present.data
        document = read_changeable_document(target.client, target.directory, file, []) if is_ours else None
        if document is not None and document.ours:
            documents.append(document)
        else:
            _remove_leftover_files(present)
    results = []
    for document in documents:
        text = settings_edit.without_our_hooks(document.text, document.file, agent, document.before)
        _check_nothing_else_changes(document, text, agent)
        settings_files.check_writable(document.present)
        results.append((document, text))
    written = []
    for document, text in results:
        same = document.before is not None and json_edit.value_for_exact_comparison(text) == json_edit.value_for_exact_comparison(
            document.before
        )
        same = same and json_edit.comments(text) == json_edit.comments(document.before or "")
        restored = same
        if same:
            assert document.backup.data is not None
            settings_files.replace_if_unchanged(document.present, document.backup.data, 0o600)
        elif document.backup.data is None and json_edit.parse_with_comments(text) == json_edit.parse_with_comments(document.file.empty):
            settings_files.remove_if_unchanged(document.present)
            if (above := os.path.dirname(document.present.path)) != target.directory:
                settings_files.remove_if_empty(above)
            restored = True
        else:
            settings_files.replace_if_unchanged(document.present, document.encode_with_mark(text), 0o600)
            notes.append(f"{printable(document.present.path)} was changed since the installation: only our hooks were taken out")
        if document.before is not None:
            settings_files.remove_if_unchanged(document.backup)
        written.append(Written(document.present.path, changed=True, restored=restored))
    return tuple(written), tuple(dict.fromkeys(event for document in documents for event in document.ours)), notes


def _remove_leftover_files(present: SettingsFile) -> None:
    """Remove what a killed installation or uninstallation may have left next to settings without hooks of ours."""
    backup = present.path + BACKUP
    for place in {os.path.dirname(present.target), os.path.dirname(backup)}:
        fsio.remove_orphans(place)
    if os.path.isfile(backup):
        kept = settings_files.read_settings(backup)
        if kept.data == present.data:
            settings_files.remove_if_unchanged(kept)


class _CommandFile(NamedTuple):
    """What became of the file of a command: its path if it is there and ours, else None."""

    path: str | None
    is_changed: bool = False
    notes: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


def _install_command(target: Target) -> _CommandFile:
    path = target.client.slash_command_path(target.directory)
    return _CommandFile(None) if path is None else _write_command(target, path, claude_plugin.slash_command_file(), "/casrewind")


def _install_short_command(target: Target, *, is_wanted: bool) -> _CommandFile:
    """Write `/back` if it is wanted; else only over an earlier one of ours."""
    path = target.client.short_command_path(target.directory)
    if path is None or not (is_wanted or claude_plugin.is_our_command(path)):
        return _CommandFile(None)
    return _write_command(target, path, claude_plugin.short_command_file(), "/back")


def _write_command(target: Target, path: str, data: bytes, name: str) -> _CommandFile:
    try:
        present = settings_files.read_settings(path)
        if present.data == data:
            return _CommandFile(path)
        if present.data is not None and claude_plugin.MARK not in present.data:
            return _CommandFile(None, notes=(f"{printable(path)} is a command of your own and was left as it is",))
        settings_files.replace_if_unchanged(present, data, 0o600 if target.scope == USER else 0o644)
    except (errors.CasrewindError, settings_files.FileChanged) as error:
        why = str(error) or "its file keeps changing"
        return _CommandFile(None, failed=(f"the {name} command is missing in the client: {why}",))
    return _CommandFile(path, is_changed=True)


def _remove_command(path: str | None, name: str) -> tuple[str | None, tuple[str, ...]]:
    """Returns (the removed command's file or None, notes)."""
    if path is None:
        return None, ()
    fsio.remove_orphans(os.path.dirname(path))
    try:
        present = settings_files.read_settings(path)
        if present.data is None or claude_plugin.MARK not in present.data:
            return None, ()
        settings_files.remove_if_unchanged(present)
    except (errors.CasrewindError, settings_files.FileChanged) as error:
        return None, (f"the {name} command is still there: {str(error) or 'its file keeps changing'}",)
    settings_files.remove_if_empty(os.path.dirname(path))
    return path, ()
