"""casrewind push."""

import os
import time
from contextlib import suppress

from ... import environment, errors
from ..._typing import TYPE_CHECKING
from ...config import parse_age
from ...messages import age_in_words, plural, printable
from ...remote import remote_config as configs
from ...remote.names import base_of, pair_of, put_names
from ...settings import from_environment
from ...store import push_notes
from ..grammar.options import ASSUME_YES, AUTO, DRY_RUN, JSON, Command, Option, flag
from ..show.remote import (
    new_files_line,
    outgoing_shape,
    saved_first_line,
)
from ..show.text import human_size, signed_counts, skipped_lines
from ..terminal.lines import print_json, print_line, print_lines, remark
from ..terminal.questions import agreed, must_ask_or_raise
from . import OK, REMARKS, Done
from .remote import join_by_variables, remark_on_strangers

if TYPE_CHECKING:
    from ...context import Context
    from ...remote.names import Name
    from ...remote.outgoing import Outgoing, SavedFirst
    from ...remote.pushed import Pushed
    from ...remote.remote_config import Remote
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind push", "casrewind push -n"),
    options=(
        DRY_RUN._replace(help="show how much push would send, and the new files, but save and send nothing", group="how"),
        Option(("--as",), "name what is pushed, for casrewind clone URL DIR NAME", "NAME", dest="name_base"),
        Option(
            ("--meta",), "name it by a pair, such as run=123; the bucket's owner sees which are equal", "KEY=VALUE",
            dest="pairs", repeats=True,
        ),
        flag("--keep-purged", "push even if the machine from which you cloned has purged data since"),
        flag("--anew", "send everything again, and empty what this machine pushed before, to repair what remote verify names"),
        flag("--purge-held", "after a purge: empty what this machine pushed before, even if clones use it"),
        ASSUME_YES,
        flag("--background", "start a process that pushes, and do not wait for it", group="how"),
        Option(("--wait",), "like --background, but wait up to AGE (1.2s, 1m) for the push, and retry if it fails", "AGE", group="how"),
        AUTO, JSON,
    ),
    more=(
        "Saves the current files first, unless an agent's turn is running. Sends each file and conversation once, encrypted. If a push "
        "is interrupted, the next one continues it. With the setting remote.push, hooks push automatically."
    ),
    saves=True, stays=True,
)

_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
"""Seconds between two tries of `push --wait`: the first pause, and what it grows to."""
_GOES_ON = "the push continues in the background; casrewind status says how far it is"


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind push."""
    if options.auto:
        return _be_background_push(context, options)
    from ...remote import outgoing

    join_by_variables(context, options)
    directory, config = configs.need(context.store)
    names = _names_given(options)
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
    found = _push_by_hand(context, opened, options, done)
    problems = put_names(context, opened, names) if names else []
    remark_on_strangers(len(opened.files.strangers.met), config.url)
    done()
    if options.json:
        print_json({**_pushed_json(found, config.url), **outgoing_shape(first, going.new)})
    else:
        told = _pushed_lines(found, going, config.url, all_saved=first.saved is not None and not is_incomplete)
        for line in (saved_first_line(first), *told, new_files_line(going.new)):
            if line:
                print_line(line)
    for problem in problems:
        remark(f"casrewind: {problem}")
    for name in found.left:
        remark(f"casrewind: not emptied, it may hold purged content: {config.url}/{name}")
    for identity in found.damaged:
        remark(f"casrewind: not pushed, because its content is damaged here: {identity}; casrewind verify says more")
    return REMARKS if is_incomplete or found.left or found.damaged or problems else OK


def _names_given(options: "ParsedOptions") -> "list[Name]":
    """What --as and --meta say. Raises UsageError."""
    names = [*map(base_of, [] if options.name_base is None else [options.name_base]), *map(pair_of, options.pairs)]
    if names and (options.dry_run or options.background or options.wait is not None):
        raise errors.UsageError("--as and --meta exclude --dry-run, --background and --wait", "they name what this push has sent")
    return names


def _push_by_hand(context: "Context", opened: "Remote", options: "ParsedOptions", done: Done) -> "Pushed":
    """Push now. An error without a hint says how many checkpoints wait for the next push."""
    from ...remote import push as pushes
    from ...remote.pushed import count_unsent

    try:
        return pushes.push(
            context, opened, by_hand=True, dry_run=options.dry_run, anew=options.anew, keep_purged=options.keep_purged,
            purge_held=options.purge_held,
        )
    except errors.RemoteError as error:
        if error.hint:
            raise
        waiting = count_unsent(context)
        number = 0 if waiting is None else waiting.number
        wait = "waits" if number == 1 else "wait"
        raise errors.RemoteError(error.problem, f"{plural(number, 'checkpoint')} {wait} for the next push") from error
    except KeyboardInterrupt:
        done()
        remark("casrewind: the push was stopped: what it sent stays on the remote, and the next push sends the rest")
        raise


def _may_purge_held(opened: "Remote", options: "ParsedOptions") -> bool:
    """True if no other machine uses what this machine pushed, or if a person agrees. Names those machines: their checkpoints lose it."""
    from ...remote.base_chain import holders_of_own

    users = holders_of_own(opened)
    if not users or options.dry_run:
        return True
    print_line(f"These machines use what this machine pushed to {opened.config.url}:")
    for name in users:
        print_line(f"  - {printable(name)}: its checkpoints there lose what they use of it")
    return not must_ask_or_raise(options, "empties what clones use") or agreed("Empty it?")


def _may_push_anew(context: "Context", opened: "Remote", options: "ParsedOptions") -> bool:
    """True if this store still has all that a push anew removes from the remote, or if a person agrees."""
    from ...remote import old_chains

    if options.dry_run or options.background or options.wait is not None:
        raise errors.UsageError("push --anew excludes --dry-run, --background and --wait", "casrewind push --anew ends when all is pushed")
    mine = old_chains.find_forgotten(context, opened)
    if mine is None or mine.kept:
        return True
    asks = must_ask_or_raise(options, "removes checkpoints from the remote")
    print_line(f"Push everything anew to {opened.config.url}, and remove what was pushed before.")
    newest = age_in_words(mine.newest_ns)
    print_line(f"  - {plural(mine.forgotten, 'checkpoint')} there that this machine no longer has, the newest from {newest}")
    return not asks or agreed("This cannot be undone. Go on?")


def remark_on_save(first: "SavedFirst") -> bool:
    """Say what the save before a push could not take. True if there is something."""
    if first.problem:
        remark(f"casrewind: the current files were not saved: {first.problem}")
    faults = () if first.saved is None else first.saved.faults
    print_lines(skipped_lines(faults))
    return bool(first.problem or faults)


def _be_background_push(context: "Context", options: "ParsedOptions") -> int:
    from ...remote import push_process

    _, config = from_environment(store=options.store, force=options.force)
    os.chdir("/")  # do not keep a file system busy
    environ = context.environ if config.remote_from_environment else None
    push_process.run_push_process(context, config.remote_interval, environ=environ, url=environment.remote_to_join(config))
    return OK


def _push_in_background(context: "Context", options: "ParsedOptions", wait: float, first: "SavedFirst") -> int:
    """Start the process of a background push, wait for it at most so many seconds, and start it again while it fails."""
    from ...hook import background_push
    from ...remote.pushed import count_unsent

    is_incomplete = remark_on_save(first)
    settings, _ = from_environment(store=options.store, force=options.force)
    directory, remote_config = configs.need(context.store)
    before, pause = push_notes.read_push_notes(directory), _PAUSE
    end = time.monotonic() + wait
    while True:
        is_done = background_push.start_push(context.root.path, context.store.remotes, settings, wait=max(end - time.monotonic(), 0.0))
        found = count_unsent(context)
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


def _pushed_lines(found: "Pushed", going: "Outgoing", url: str, *, all_saved: bool) -> list[str]:
    what = f"{plural(found.checkpoints, 'checkpoint')} ({plural(found.blobs, 'blob')}, {human_size(found.size)})"
    if found.dry_run:
        first = f"would save the current files first ({signed_counts(going.unsaved)})" if any(going.unsaved) else ""
        if found.checkpoints:
            return [*filter(None, [first]), f"would push {what}, before compression"]
        return [f"{first}, and push that" if first else f"nothing to push: all checkpoints are on {url}"]
    if not found.requests and found.damaged:
        return []
    if not found.requests:
        return [f"nothing to push: {'all files are saved, and ' if all_saved else ''}all checkpoints are on {url}"]
    requests = f"in {plural(found.requests, 'request')}"
    if found.checkpoints or not found.size:
        return [*found.notes, f"pushed {what} {requests}" if found.checkpoints else f"all checkpoints are on {url}"]
    return [*found.notes, f"pushed pins, labels and other notes of earlier checkpoints {requests}; no checkpoint is new"]


def _pushed_json(found: "Pushed", url: str) -> "dict[str, object]":
    return {**found._asdict(), "url": url, "notes": list(found.notes), "left": list(found.left), "damaged": list(found.damaged)}
