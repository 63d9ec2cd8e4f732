"""casrewind remote, push, pull, clone, export and import: checkpoints on other machines."""

import os
import sys
import time
from contextlib import suppress

from ... import environment, errors
from ..._typing import TYPE_CHECKING
from ...config import parse_age
from ...messages import age_in_words, plural, printable
from ...remote import connect
from ...remote import remote_config as configs
from ...remote.remote_config import RemoteConfig
from ...settings import from_environment
from ...store import push_notes
from ..show.remote import (
    new_files_line,
    not_pushed,
    outgoing_shape,
    remote_lines,
    remote_shape,
    saved_first_line,
    verified_lines,
    verified_shape,
)
from ..show.text import human_size, signed_counts, skipped_lines
from ..terminal.lines import note, print_json, print_line, print_lines, remark
from ..terminal.questions import agreed, can_person_answer, must_ask_or_raise
from . import OK, REMARKS, Done

if TYPE_CHECKING:
    from ...ops.context import Context
    from ...remote.outgoing import Outgoing, SavedFirst
    from ...remote.pull import Pulled
    from ...remote.pushed import Pushed
    from ...remote.remote_config import Remote
    from ...settings import Settings
    from ..grammar.command_line import ParsedOptions

_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
"""Seconds between two tries of `push --wait`: the first pause, and what it grows to."""
_GOES_ON = "the push goes on in the background; casrewind status says how far it is"


def remote(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind remote."""
    if options.action == "add":
        return _add_remote(context, options, done)
    _refuse_option_of_other_action(options)
    if options.url is not None:
        raise errors.UsageError(f"remote {options.action or 'list'} takes no URL", "casrewind remote add URL adds one")
    if options.action == "key":
        return _print_key_or_add_passphrase(context, options)
    if options.action == "verify":
        return _verify_remote(context, options, done)
    if options.action == "remove":
        return _remove_remote(context, options)
    if options.action == "gc":
        from .remote_gc import remote_gc

        return remote_gc(context, options, done)
    return _print_remote(context, options)


def _refuse_option_of_other_action(options: "ParsedOptions") -> None:
    if (options.dry_run or options.forgotten) and options.action != "gc":
        given = "--dry-run" if options.dry_run else "--forgotten"
        raise errors.UsageError(f"{given} goes with remote gc", "casrewind remote gc -n shows what would be removed")
    if options.strangers and options.action != "verify":
        raise errors.UsageError("--strangers goes with remote verify", "casrewind remote verify --strangers lists them")
    if options.new:
        raise errors.UsageError("--new goes with remote add", "casrewind remote add --new URL makes a remote")


def _config_of_options(options: "ParsedOptions", url: str, *, conversations: bool = True) -> RemoteConfig:
    given = {"endpoint": options.endpoint, "region": options.region, "profile": options.profile}
    found = {key: value for key, value in given.items() if value}
    return RemoteConfig(url, options.machine or connect.machine_name(), options.key_command or "", found, conversations)


def _add_remote(context: "Context", options: "ParsedOptions", done: Done) -> int:
    if not options.url:
        raise errors.UsageError("remote add: missing URL", "casrewind remote --help shows the forms of a URL")
    wanted = _config_of_options(options, options.url, conversations=options.conversations)
    ask = _ask_for_passphrase if can_person_answer() else None
    made = connect.add(context.store, wanted, context.environ, key_file=options.key_file or "", new=options.new, ask=ask)
    done()
    if options.json:
        print_json({
            "url": wanted.url, "machine": wanted.machine, "new": made.is_new, "machines": made.machines, "passphrase": made.has_passphrase
        })  # fmt: skip
        return OK
    print_line(f"{_made_or_joined(made, wanted.url)}; this machine is {printable(wanted.machine)} there")
    what = "files, prompts and conversations" if wanted.conversations else "files and prompts, no conversations"
    print_line(f"  a push sends {what}, encrypted")
    if wanted.key_command:
        print_line("  the key comes from the command at each push and pull; it is kept nowhere")
    else:
        print_line(f"  its key is in {printable(os.path.join(made.directory, 'key'))}")
    if made.is_new:
        print_line("  keep the key elsewhere, too: casrewind remote key --show")
        lost = "without it and the passphrase" if made.has_passphrase else "without it"
        print_line(f"  {lost} nobody can read what was pushed")
    return OK


def _made_or_joined(made: connect.Added, url: str) -> str:
    if made.is_new:
        return f"made the remote {url}"
    if made.machines is None:
        return f"joined the remote {url}"
    return f"joined the remote {url} ({plural(made.machines, 'machine') if made.machines else 'no machine has pushed'})"


def _ask_for_passphrase(is_new: bool) -> str:  # noqa: FBT001 - connect.AskPassphrase
    from getpass import getpass

    if not is_new:
        return getpass("passphrase of the remote: ")
    print_line("A passphrase opens the remote on another machine. Enter for none.")
    first = getpass("new passphrase: ")
    if first:
        connect.refuse_short_passphrase(first)
    if first and getpass("once more: ") != first:
        raise errors.UsageError("the passphrases differ", "nothing was changed; try again")
    return first


def _print_key_or_add_passphrase(context: "Context", options: "ParsedOptions") -> int:
    directory, found = configs.need(context.store)
    if options.show:
        if not sys.stdout.isatty():
            raise errors.UsageError("the key is shown on a terminal only", "run casrewind remote key --show there")
        print_line(configs.key_as_text(configs.key(directory, found)))
        print_line(f"who has this key reads all that is pushed to {found.url}")
        return OK
    if options.add:
        if not can_person_answer():
            raise errors.UsageError("a passphrase is asked for on a terminal", "run casrewind remote key --add there")
        master = configs.key(directory, found)
        passphrase = _ask_for_passphrase(True)
        if not passphrase:
            print_line("nothing was changed")
            return OK
        connect.add_passphrase(directory, found, master, passphrase)
        print_line(f"this passphrase opens {found.url} now; casrewind clone and remote add ask for it")
        return OK
    where = f"the command {found.key_command!r} prints it" if found.key_command else printable(os.path.join(directory, "key"))
    print_line(f"the key of {found.url}: {where}")
    print_line("casrewind remote key --show prints it, --add lets a passphrase open it")
    return OK


def _verify_remote(context: "Context", options: "ParsedOptions", done: Done) -> int:
    from ...remote import verify_chains

    opened = configs.open_remote(context.store)
    found = verify_chains.verify_remote(context, opened, read_blobs=options.all)
    directory = opened.files.directory
    with suppress(OSError):  # the report is worth more than its note
        notes = push_notes.read_push_notes(directory)._replace(verified_ns=time.time_ns(), damage=found.damage)
        push_notes.write_push_notes(context.store.path, directory, notes)
    done()
    if options.json:
        print_json(verified_shape(found, opened.config.url, everything=options.all))
    else:
        for line in verified_lines(found, opened.config.url, everything=options.all):
            print_line(printable(line))
        for name in found.strangers if options.strangers else ():
            print_line(f"  {opened.config.url}/{printable(name)}")
    _remark_on_strangers(0 if options.strangers else len(found.strangers), opened.config.url)
    for problem in (*found.problems, *(problem for chain in found.chains for problem in chain.problems)):
        remark(f"casrewind: {problem}")
    if any(chain.is_own and chain.problems for chain in found.chains):
        remark("casrewind: casrewind push --anew sends what this machine has again")
    if any((chain.damage or chain.taken_back) and not (chain.is_own or chain.is_newer) for chain in found.chains):
        remark("casrewind: casrewind push --anew on the machine that pushed it mends it; if that is gone, see casrewind remote gc -n")
    return REMARKS if found.damage else OK


def _remove_remote(context: "Context", options: "ParsedOptions") -> int:
    directory, found = configs.need(context.store)
    for line in _what_remove_forgets(directory, found):
        print_line(line)
    if must_ask_or_raise(options, "removes the key") and not agreed("Go on?"):
        print_line("nothing was changed")
        return OK
    configs.remove(directory)
    print_line(f"forgot the remote {found.url}")
    return OK


def _what_remove_forgets(directory: str, found: RemoteConfig) -> list[str]:
    lines = [f"Forget the remote {found.url} here.", "  what was pushed stays there"]
    if found.key_command:
        return [*lines, f"  its key is not here: the command {found.key_command!r} prints it"]
    place = printable(os.path.join(directory, "key"))
    return [
        *lines,
        f"  its key goes, too: {place}",
        "  without a copy of the key, or a passphrase, nobody can read what was pushed",
        "  to keep it: casrewind remote key --show, or copy that file, before you go on",
    ]


def _print_remote(context: "Context", options: "ParsedOptions") -> int:
    from ...remote.unsent import unsent

    found = unsent(context)
    setting = environment.configuration().remote_push
    if options.json:
        shape = {"url": None, "not_pushed": 0} if found is None else remote_shape(found, setting)
        print_json({**shape, "machine": None if found is None else found.config.machine})
    elif found is None:
        print_line("this project has no remote: casrewind remote add URL gives it one")
    else:
        print_line(f"{found.config.url}; this machine is {printable(found.config.machine)} there")
        for line in (not_pushed(found), *remote_lines(found, setting, environment.variables_without_effect())):
            print_line(f"  {printable(line)}")
        if found.machines:
            print_line(f"  pulled: {', '.join(found.machines)}")
    return OK


def push(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind push."""
    if options.auto:
        return _be_background_push(context, options)
    from ...remote import outgoing

    directory, config = configs.need(context.store)
    if options.background or options.wait is not None:
        if options.wait is not None:
            configs.open_remote(context.store)  # no wait makes a wrong key right
        wait = 0.0 if options.wait is None else parse_age(options.wait, "--wait")
        return _push_in_background(context, options, wait, outgoing.save_first(context))
    opened = configs.open_remote(context.store)
    if (options.purge_held and not _may_purge_held(opened, options)) or (options.anew and not _may_push_anew(context, opened, options)):
        print_line("nothing was pushed")
        return OK
    if options.dry_run:
        first = outgoing.SavedFirst(why_not=outgoing.why_not_saved(context))
        going = outgoing.find_outgoing(context, directory, with_now=not first.why_not)
    else:
        first, going = outgoing.save_first(context), outgoing.Outgoing()
        with suppress(errors.CasrewindError):  # the names are worth less than the push, which says what is damaged
            going = outgoing.find_outgoing(context, directory, with_now=False)
    is_incomplete = remark_on_save(first)
    found = _push_or_say_what_waits(context, opened, options, done)
    _remark_on_strangers(len(opened.files.strangers.met), config.url)
    done()
    if options.json:
        print_json({**_pushed_json(found, config.url), **outgoing_shape(first, going.new)})
    else:
        for line in (saved_first_line(first), *_pushed_lines(found, going, config.url), new_files_line(going.new)):
            if line:
                print_line(line)
    for name in found.left:
        remark(f"casrewind: not emptied, it may hold purged content: {config.url}/{name}")
    for identity in found.damaged:
        remark(f"casrewind: not pushed, because its content is damaged here: {identity}; casrewind verify says more")
    return REMARKS if is_incomplete or found.left or found.damaged else OK


def _push_or_say_what_waits(context: "Context", opened: "Remote", options: "ParsedOptions", done: Done) -> "Pushed":
    from ...remote import push as pushes
    from ...remote.unsent import unsent

    try:
        return pushes.push(
            context, opened, by_hand=True, dry_run=options.dry_run, anew=options.anew, keep_purged=options.keep_purged,
            purge_held=options.purge_held,
        )
    except errors.RemoteError as error:
        if error.hint:
            raise
        waiting = unsent(context)
        number = 0 if waiting is None else waiting.number
        wait = "waits" if number == 1 else "wait"
        raise errors.RemoteError(error.problem, f"{plural(number, 'checkpoint')} {wait} for the next push") from error
    except KeyboardInterrupt:
        done()
        remark("casrewind: the push was stopped: what is there stays there, and the next push sends the rest")
        raise


def _may_purge_held(opened: "Remote", options: "ParsedOptions") -> bool:
    """Name the machines whose checkpoints lose what they use of this machine's, and ask."""
    from ...remote.base_chain import holders_of_own

    users = holders_of_own(opened)
    if not users or options.dry_run:
        return True
    print_line(f"These machines use what this machine pushed to {opened.config.url}:")
    for name in users:
        print_line(f"  - {printable(name)}: its checkpoints there lose what they use of it")
    return not must_ask_or_raise(options, "empties what clones use") or agreed("Empty it?")


def _may_push_anew(context: "Context", opened: "Remote", options: "ParsedOptions") -> bool:
    """True if a push anew removes nothing from the remote that is not here any more, or if a person agrees to that."""
    from ...remote import old_chains

    if options.dry_run or options.background or options.wait is not None:
        raise errors.UsageError("--anew is pushed at once", "casrewind push --anew waits for its end")
    mine = old_chains.find_forgotten(context, opened)
    if mine is None or mine.kept:
        return True
    asks = must_ask_or_raise(options, "removes checkpoints from the remote")
    print_line(f"Push everything anew to {opened.config.url}, and remove what was pushed before.")
    newest = age_in_words(mine.newest_ns)
    print_line(f"  - {plural(mine.forgotten, 'checkpoint')} there that this machine has no longer, the newest from {newest}")
    return not asks or agreed("This cannot be undone. Go on?")


def remark_on_save(first: "SavedFirst") -> bool:
    """Say what the save before a push could not take. True if there is something."""
    if first.problem:
        remark(f"casrewind: the files of now were not saved: {first.problem}")
    faults = () if first.saved is None else first.saved.faults
    print_lines(skipped_lines(faults))
    return bool(first.problem or faults)


def _be_background_push(context: "Context", options: "ParsedOptions") -> int:
    from ...remote import push_process

    _, config = from_environment(store=options.store, force=options.force)
    os.chdir("/")  # do not keep a file system busy
    environ = context.environ if config.remote_from_environment else None
    push_process.run_push_process(context, config.remote_interval, environ=environ)
    return OK


def _push_in_background(context: "Context", options: "ParsedOptions", wait: float, first: "SavedFirst") -> int:
    """Start the process of a background push, wait for it at most so many seconds, and start it again while it fails."""
    from ...hook import background_push
    from ...remote.unsent import unsent

    is_incomplete = remark_on_save(first)
    settings, _ = from_environment(store=options.store, force=options.force)
    directory, remote_config = configs.need(context.store)
    before, pause = push_notes.read_push_notes(directory), _PAUSE
    end = time.monotonic() + wait
    while True:
        is_done = background_push.start_push(context.root.path, context.store.remotes, settings, wait=max(end - time.monotonic(), 0.0))
        found = unsent(context)
        number = 0 if found is None else found.number
        left = end - time.monotonic()
        if (is_done and not number) or left <= 0:
            break
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
    notes = push_notes.read_push_notes(directory)
    if notes.problem and notes.failed_ns != before.failed_ns:
        raise errors.RemoteError(notes.problem, "casrewind push tries again")
    if options.json:
        shape = {key: value for key, value in outgoing_shape(first, ()).items() if key != "new_files"}
        print_json({"url": remote_config.url, "done": is_done and not number, "not_pushed": number, **shape})
    else:
        if line := saved_first_line(first):
            print_line(line)
        is_all = is_done and not number
        print_line(f"all checkpoints are on {remote_config.url}" if is_all else _GOES_ON)
    return REMARKS if is_incomplete or (number and not options.background) else OK


def _pushed_lines(found: "Pushed", going: "Outgoing", url: str) -> list[str]:
    what = f"{plural(found.checkpoints, 'checkpoint')} ({plural(found.blobs, 'blob')}, {human_size(found.size)})"
    if found.dry_run:
        first = f"would save the files of now first ({signed_counts(going.unsaved)})" if any(going.unsaved) else ""
        if found.checkpoints:
            return [*filter(None, [first]), f"would push {what}, before compression"]
        return [f"{first}, and push that" if first else f"nothing to push: all checkpoints are on {url}"]
    if not found.requests and found.damaged:
        return []
    if not found.requests:
        return [f"nothing to push: all checkpoints are on {url}"]
    requests = f"in {plural(found.requests, 'request')}"
    if found.checkpoints or not found.size:
        return [*found.notes, f"pushed {what} {requests}" if found.checkpoints else f"all checkpoints are on {url}"]
    return [*found.notes, f"pushed what was noted about earlier checkpoints, such as pins and labels, {requests}; no checkpoint is new"]


def _pushed_json(found: "Pushed", url: str) -> "dict[str, object]":
    return {**found._asdict(), "url": url, "notes": list(found.notes), "left": list(found.left), "damaged": list(found.damaged)}


def pull(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind pull."""
    from ...remote import pull as pulls

    opened = configs.open_remote(context.store)
    found = pulls.pull(context, opened, newest=options.newest)
    done()
    return print_pulled(found, options, opened.config.url)


def print_pulled(found: "Pulled", options: "ParsedOptions", url: str) -> int:
    """Print what a pull or an import took, as text or JSON. Returns the exit code."""
    if options.json:
        problems = list(found.problems)
        numbers = {"size": found.size, "requests": found.requests, "strangers": found.strangers}
        print_json({"checkpoints": dict(found.checkpoints), **numbers, "problems": problems, "notes": list(found.notes)})
    else:
        for line in found.notes:
            print_line(line)
        for machine, number in found.checkpoints.items():
            print_line(f"pulled {plural(number, 'checkpoint')} of {machine} ({human_size(found.size)})")
        if found.checkpoints:
            first = "remote" if len(found.checkpoints) == 1 else next(iter(found.checkpoints))
            print_line(f"list them: casrewind list --remote; go there: casrewind restore {first}:last")
        elif not found.problems:
            print_line(f"nothing new on {url}")
    for problem in found.problems:
        remark(f"casrewind: {problem}")
    _remark_on_strangers(found.strangers, url)
    return REMARKS if found.problems else OK


def _remark_on_strangers(number: int, url: str) -> None:
    """Name objects that were left out in one line, however many they are."""
    if number:
        verb = "is" if number == 1 else "are"
        remark(f"casrewind: {plural(number, 'object')} that {verb} not ours below {url}; casrewind remote verify --strangers lists them")


def clone(settings: "Settings", options: "ParsedOptions") -> int:
    """casrewind clone."""
    from ...remote import clone as clones

    assert options.url is not None
    wanted = _config_of_options(options, options.url)
    name = options.to or os.path.basename(options.url.rstrip("/")) or "clone"
    directory = os.path.join(options.directory, name)
    ask = _ask_for_passphrase if can_person_answer() else None
    found = clones.clone(
        wanted, directory, settings, os.environ, reference=options.ref or "", everything=options.all,
        key_file=options.key_file or "", ask=ask,
    )  # fmt: skip
    point = found.point
    if options.json:
        print_json({
            "root": found.root, "checkpoint": point.id, "machine": found.machine, "files": found.files,
            "checkpoints": found.checkpoints, "resume": None if found.chat is None else found.chat.resume, "problems": list(found.problems),
            "strangers": found.strangers,
        })  # fmt: skip
    else:
        print_line(f"restored {plural(found.files, 'file')} into {printable(name)}")
        prompt = point.label or point.prompt.partition("\n")[0]
        said = f', "{printable(prompt[:40])}"' if prompt else ""
        print_line(f"  {point.id}, {age_in_words(point.created_ns)}{said}, of {found.machine}")
        if options.all:
            print_line(f"  {plural(found.checkpoints, 'checkpoint')} came along: casrewind -C {printable(name)} list")
        if found.chat is not None:
            print_line(f"continue the conversation: {found.chat.resume}")
    if found.note:
        note(printable(found.note))
    for problem in found.problems:
        remark(f"casrewind: {problem}")
    _remark_on_strangers(found.strangers, options.url)
    return REMARKS if found.problems else OK
