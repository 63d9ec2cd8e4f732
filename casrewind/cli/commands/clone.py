"""casrewind clone: a new project of a checkpoint on a remote."""

import os

from ... import environment, errors
from ..._typing import TYPE_CHECKING
from ...config import URL_VARIABLE
from ...messages import age_in_words, plural, printable
from ...remote import clone as clones
from ..grammar.options import JSON, STRICT, Command, Option, flag
from ..show.received import receipt_lines, receipt_shape
from ..show.text import Line
from ..terminal.lines import note, print_json, print_line, print_lines, remark
from ..terminal.questions import can_person_answer
from . import OK, REMARKS
from .remote import CONNECTION, GREP, URL, ask_for_passphrase, config_of_options, print_machines, remark_on_strangers

if TYPE_CHECKING:
    from ...settings import Settings
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=(
        "casrewind clone s3://team/shop shop",
        "casrewind clone s3://team/shop shop sandbox-4:last",
        "casrewind clone s3://team/shop --list",
    ),
    options=(
        Option(("url",), f"{URL} (default: {URL_VARIABLE}, where it counts)", "URL", nargs="?"),
        Option(("to",), "the new directory (default: the last part of URL)", "DIR", nargs="?"),
        Option(("ref",), "a base, a machine, MACHINE:prev, or a checkpoint's id (default: the newest)", "REF", nargs="?"),
        Option(("--meta",), "clone what was pushed last with this --meta, instead of REF", "KEY=VALUE"),
        flag("--all", "clone all checkpoints of that machine; with --list: list all machines"),
        flag("--list", "list the machines that pushed there, and clone nothing"),
        GREP,
        STRICT, *CONNECTION, JSON,
    ),
    is_alone=True,
)


def run(settings: "Settings", options: "ParsedOptions") -> int:
    """casrewind clone."""
    url = options.url or environment.remote_to_join(environment.configuration())
    if not url:
        raise errors.UsageError("clone: missing URL", "; ".join(environment.variables_without_effect()) or "casrewind clone URL DIR")
    wanted = config_of_options(options, url)
    ask = ask_for_passphrase if can_person_answer() else None
    if options.list or options.grep:
        if options.to:
            raise errors.UsageError("clone --list makes no project, so it takes no DIR", "leave DIR out, or --list")
        return print_machines(clones.open_unjoined(wanted, os.environ, options.key_file or "", ask)[0], options, lambda: None)
    if options.meta is not None and (options.ref or not options.meta):
        raise errors.UsageError("clone takes REF or --meta KEY=VALUE, not both", "leave one out")
    name = options.to or os.path.basename(url.rstrip("/")) or "clone"
    directory = os.path.join(options.directory, name)
    found = clones.clone(
        wanted, directory, settings, os.environ, reference=options.ref or "", meta=options.meta or "", everything=options.all,
        key_file=options.key_file or "", ask=ask,
    )  # fmt: skip
    point = found.point
    if options.json:
        print_json({
            "root": found.root, "checkpoint": point.id, "machine": found.machine, "files": found.files,
            "checkpoints": found.checkpoints, "resume": None if found.chat is None else found.chat.resume, "problems": list(found.problems),
            "strangers": found.strangers, **receipt_shape(found.receipt),
        })  # fmt: skip
    else:
        print_line(f"restored {plural(found.files, 'file')} into {printable(name)}")
        prompt = point.label or point.prompt.partition("\n")[0]
        said = f', "{printable(prompt[:40])}"' if prompt else ""
        print_line(f"  {point.id}, {age_in_words(point.created_ns)}{said}, of {found.machine}")
        if options.all:
            print_line(f"  {plural(found.checkpoints, 'checkpoint')} came along: casrewind -C {printable(name)} list")
        if found.receipt is not None:
            print_lines(receipt_lines(found.receipt))
        if found.chat is not None:
            print_lines([Line(f"continue the conversation: {found.chat.resume}", is_whole=True)])
    for one in found.notes:
        note(printable(one))
    for problem in found.problems:
        remark(f"casrewind: {problem}")
    remark_on_strangers(found.strangers, url)
    is_enough = found.receipt is not None and found.receipt.is_enough(strict=options.strict)
    return OK if is_enough and not found.problems else REMARKS
