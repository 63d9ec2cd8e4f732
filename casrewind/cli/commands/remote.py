"""casrewind remote, push, pull, clone, export and import: checkpoints on other machines."""

import os
import sys
import time
from contextlib import suppress
from getpass import getpass

from ... import environment, errors
from ..._typing import TYPE_CHECKING
from ...config import URL_VARIABLE
from ...messages import plural, printable
from ...remote import connect, machines, verify_chains
from ...remote import remote_config as configs
from ...remote.pushed import count_unsent
from ...remote.remote_config import RemoteConfig
from ...store import push_notes
from ..grammar.options import ASSUME_YES, DRY_RUN, JSON, Command, Option, flag
from ..show.remote import (
    lines_without_remote,
    machines_lines,
    machines_shape,
    not_pushed,
    remote_lines,
    remote_shape,
    verified_lines,
    verified_shape,
)
from ..terminal.lines import print_json, print_line, remark
from ..terminal.questions import agreed, can_person_answer, must_ask_or_raise
from . import OK, REMARKS, Done
from .remote_gc import remote_gc

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

URL = "s3://BUCKET/PATH, gs://..., az://... or file:///DIR, for example on a USB disk"
CONNECTION = (
    Option(("--machine",), "this machine's name on the remote (default: the name of its CI job, sandbox or host)", "NAME"),
    Option(("--key-file",), "read the key from FILE (default: CASREWIND_REMOTE_KEY, or a passphrase)", "FILE"),
    Option(("--key-command",), "run COMMAND at each push and pull to get the key, and store the key nowhere", "COMMAND"),
    Option(("--endpoint",), "the address of an S3-compatible server", "URL"),
    Option(("--region",), "the region of the bucket", "REGION"),
    Option(("--profile",), "use this profile of the AWS configuration", "NAME"),
)
GREP = Option(("--grep",), f"show only machines with TEXT in their name (default: the {machines.NEWEST_SHOWN} newest)", "TEXT")
COMMAND = Command(
    examples=(
        "casrewind remote add s3://team/shop",
        "casrewind remote verify --all",
        "casrewind remote key --show",
        "casrewind remote gc -n",
        "casrewind remote",
    ),
    options=(
        Option(
            ("action",),
            "list (default), add URL, machines, key, verify, gc or remove",
            "ACTION",
            nargs="?",
            choices=("list", "add", "machines", "key", "verify", "gc", "remove"),
        ),
        Option(("url",), URL, "URL", nargs="?"),
        *CONNECTION,
        Option(("--conversations",), "push transcripts of conversations (default)", pair=True, default=True),
        flag("--new", "with add: make a new remote; required if there is no terminal and no key"),
        flag("--show", "with key: print the key (only in a terminal)", group="key"),
        flag("--add", "with key: add another passphrase that opens the remote", group="key"),
        flag("--all", "with verify: read and check every blob, and check that each checkpoint is complete; with machines: show all"),
        GREP,
        flag("--strangers", "with verify: list objects that someone without the key put there"),
        flag("--forgotten", "with gc: also remove what this machine pushed and its own gc has deleted since"),
        DRY_RUN._replace(help="with gc: show what gc would remove, and what it would keep and why"),
        ASSUME_YES, JSON,
    ),
    usage=(
        "[--json]",
        "add [OPTIONS] URL",
        "machines [--grep TEXT] [--all] [--json]",
        "key (--show | --add)",
        "verify [--all] [--strangers] [--json]",
        "gc [--forgotten] [-n] [-y] [--json]",
        "remove [-y]",
    ),
    more=(
        "push encrypts everything that it sends, and nobody can read it without the key. gc removes what a machine pushed if its last "
        "push is older than remote.keep (default: forever). A pin protects it from gc, but a label does not. gc also removes data that "
        "cannot be read because a part is missing or damaged. It merges the small pieces that this machine pushed, and forgets remote "
        "data that no longer exists. With --forgotten, this machine pushes again what its store still has, and removes what it pushed "
        "before."
    ),
    creates=True, stays=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind remote."""
    if options.action == "add":
        return _add_remote(context, options, done)
    _refuse_foreign_options(options)
    if options.url is not None:
        raise errors.UsageError(f"remote {options.action or 'list'} takes no URL", "casrewind remote add URL adds one")
    if options.action == "key":
        return _run_key_action(context, options)
    if options.action == "machines":
        return print_machines(configs.open_remote(context.store), options, done)
    if options.action == "verify":
        return _verify_remote(context, options, done)
    if options.action == "remove":
        return _remove_remote(context, options)
    if options.action == "gc":
        return remote_gc(context, options, done)
    return _print_remote(context, options)


def _refuse_foreign_options(options: "ParsedOptions") -> None:
    """Raise UsageError for an option of another action."""
    if (options.dry_run or options.forgotten) and options.action != "gc":
        given = "--dry-run" if options.dry_run else "--forgotten"
        raise errors.UsageError(f"{given} goes with remote gc", "casrewind remote gc -n shows what would be removed")
    if options.strangers and options.action != "verify":
        raise errors.UsageError("--strangers goes with remote verify", "casrewind remote verify --strangers lists them")
    if options.grep and options.action != "machines":
        raise errors.UsageError("--grep goes with remote machines", "casrewind list --remote --grep TEXT searches what was pulled")
    if options.new:
        raise errors.UsageError("--new goes with remote add", "casrewind remote add --new URL makes a remote")


def join_by_variables(context: "Context", options: "ParsedOptions") -> None:
    """Give a project without a remote that which variables name, where the user's file lets them count."""
    url = environment.remote_to_join(environment.configuration())
    if url and configs.find(context.store) is None:
        joined = connect.join_by_variables(context.store, url, context.environ)
        if not options.json:
            print_line(f"joined the remote {url}; this machine is called {printable(joined.machine)} there")


def config_of_options(options: "ParsedOptions", url: str, *, conversations: bool = True) -> RemoteConfig:
    """What the command line says about a remote."""
    given = {"endpoint": options.endpoint, "region": options.region, "profile": options.profile}
    found = {key: value for key, value in given.items() if value}
    return RemoteConfig(url, options.machine or connect.machine_name(), options.key_command or "", found, conversations)


def _add_remote(context: "Context", options: "ParsedOptions", done: Done) -> int:
    if not options.url:
        raise errors.UsageError("remote add: missing URL", "casrewind remote --help shows the forms of a URL")
    wanted = config_of_options(options, options.url, conversations=options.conversations)
    ask = ask_for_passphrase if can_person_answer() else None
    made = connect.add(context.store, wanted, context.environ, key_file=options.key_file or "", new=options.new, ask=ask)
    done()
    if options.json:
        print_json({
            "url": wanted.url, "machine": wanted.machine, "new": made.is_new, "machines": made.machines, "passphrase": made.has_passphrase
        })  # fmt: skip
        return OK
    print_line(f"{_made_or_joined(made, wanted.url)}; this machine is called {printable(wanted.machine)} there")
    what = "files, prompts and conversations" if wanted.conversations else "files and prompts, no conversations"
    print_line(f"  a push sends {what}, encrypted")
    if wanted.key_command:
        print_line("  each push and pull gets the key from the command; casrewind does not store it")
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


def ask_for_passphrase(is_new: bool) -> str:  # noqa: FBT001 - connect.AskPassphrase
    """Ask for a passphrase on the terminal; for a new one twice. Returns "" for none."""
    if not is_new:
        return getpass("passphrase of the remote: ")
    print_line("With a passphrase, you can open the remote on another machine. Press Enter for none.")
    first = getpass("new passphrase: ")
    if first:
        connect.refuse_short_passphrase(first)
    if first and getpass("once more: ") != first:
        raise errors.UsageError("the passphrases differ", "nothing was changed; try again")
    return first


def _run_key_action(context: "Context", options: "ParsedOptions") -> int:
    """casrewind remote key: show the key, let one more passphrase open it, or say where it is. Returns the exit code."""
    directory, found = configs.need(context.store)
    if options.show:
        if not sys.stdout.isatty():
            raise errors.UsageError("casrewind shows the key only in a terminal", "run casrewind remote key --show there")
        print_line(configs.key_as_text(configs.key(directory, found)))
        print_line(f"anyone with this key can read everything that is pushed to {found.url}")
        return OK
    if options.add:
        if not can_person_answer():
            raise errors.UsageError("casrewind asks for a passphrase only in a terminal", "run casrewind remote key --add there")
        master = configs.key(directory, found)
        passphrase = ask_for_passphrase(True)
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


def print_machines(remote: configs.Remote, options: "ParsedOptions", done: Done) -> int:
    """The machines that pushed to a remote. Returns the exit code."""
    found = machines.list_machines(remote, None if options.all else machines.NEWEST_SHOWN, options.grep or "")
    done()
    if options.json:
        print_json(machines_shape(found, remote.config.url))
    else:
        for line in machines_lines(found, remote.config.url):
            print_line(printable(line))
    for problem in (problem for one in found.shown for problem in one.problems):
        remark(f"casrewind: {problem}")
    if found.unreadable:
        remark(f"casrewind: {plural(found.unreadable, 'chain')} cannot be read; casrewind remote verify says why")
    return REMARKS if found.unreadable or any(one.problems for one in found.shown) else OK


def _verify_remote(context: "Context", options: "ParsedOptions", done: Done) -> int:
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
    remark_on_strangers(0 if options.strangers else len(found.strangers), opened.config.url)
    for problem in (*found.problems, *(problem for chain in found.chains for problem in chain.problems)):
        remark(f"casrewind: {problem}")
    if any(chain.is_own and chain.problems for chain in found.chains):
        remark("casrewind: casrewind push --anew sends what this machine has again")
    if any((chain.damage or chain.taken_back) and not (chain.is_own or chain.is_newer) for chain in found.chains):
        remark("casrewind: to repair it, run casrewind push --anew on its machine; if that machine is gone, see casrewind remote gc -n")
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
    if url := environment.remote_to_join(environment.configuration()):
        lines.append(f"  the next push joins {printable(url)}: {URL_VARIABLE} names it, and your configuration allows that")
    if found.key_command:
        return [*lines, f"  its key is not here: the command {found.key_command!r} prints it"]
    place = printable(os.path.join(directory, "key"))
    return [
        *lines,
        f"  this also deletes its key: {place}",
        "  without a copy of the key, or a passphrase, nobody can read what was pushed",
        "  to keep it: casrewind remote key --show, or copy that file, before you continue",
    ]


def _print_remote(context: "Context", options: "ParsedOptions") -> int:
    found = count_unsent(context)
    setting, failed = environment.configuration().remote_push, push_notes.read_failed_join(context.store.remotes)
    if options.json:
        not_joined = None if failed is None else failed.problem
        shape = {"url": None, "not_pushed": 0, "not_joined": not_joined} if found is None else remote_shape(found, setting)
        print_json({**shape, "machine": None if found is None else found.config.machine})
    elif found is None:
        print_line("this project has no remote: casrewind remote add URL gives it one")
        for line in lines_without_remote(failed, environment.variables_without_effect()):
            print_line(f"  {printable(line)}")
    else:
        print_line(f"{found.config.url}; this machine is called {printable(found.config.machine)} there")
        for line in (not_pushed(found), *remote_lines(found, setting, environment.variables_without_effect())):
            print_line(f"  {printable(line)}")
        if found.machines:
            print_line(f"  pulled: {', '.join(found.machines)}")
    return OK


def remark_on_strangers(number: int, url: str) -> None:
    """Name objects that were left out in one line, however many they are."""
    if number:
        verb = "is" if number == 1 else "are"
        remark(f"casrewind: {plural(number, 'object')} that {verb} not ours below {url}; casrewind remote verify --strangers lists them")
