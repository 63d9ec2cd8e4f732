"""The commands that take a conversation back, alone or with the files."""

import argparse
import os
import sys

from ... import errors, fsio
from ...ops import rewind
from ...typed import Any
from ...workspace import homes_of, site_of
from .. import shapes
from ..render import chat as render
from ..render import text
from . import OK, REMARKS, Done

_WORD = "REWRITE"


def back(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind back."""
    from ...ops.restore import Declined

    asking = _asks(options, options.both or options.in_place)
    try:
        report = rewind.back(
            site_of(workspace),
            homes_of(workspace),
            options.number,
            session=options.session or "",
            preferred=os.environ.get("CASREWIND_SESSION", ""),
            both=options.both,
            in_place=options.in_place,
            nearest=options.nearest,
            choose=render.agree if asking else None,
            agree=render.agree if asking else None,
            confirm=render.confirming(f"before prompt {options.number}", done) if asking and options.both else None,
        )
    except Declined:
        text.say("nothing was changed")
        return OK
    done()
    return _rewound(report, options)


def restore(workspace: Any, options: argparse.Namespace, point: Any, done: Done) -> int:
    """casrewind restore --chat and --both, casrewind jump."""
    from ...ops.restore import Declined

    both = options.what == "both"
    if options.to is not None:
        raise errors.UsageError(f"restore --to DIR writes files only: it takes no --{options.what}")
    scope = workspace.paths(options.rest, [point], options.directory)
    if options.dashed and not (scope and both):
        raise errors.UsageError("paths behind -- limit what is done to files: they go with --code or --both, and are not none")
    asking = both and not options.dry_run and _asks(options, both)
    try:
        report = rewind.to_checkpoint(
            site_of(workspace),
            homes_of(workspace),
            point,
            both=both,
            scope=scope,
            dry_run=options.dry_run,
            skip_damaged=options.skip_damaged,
            confirm=render.confirming(options.ref, done) if asking else None,
        )
    except Declined:
        text.say("nothing was changed")
        return OK
    done()
    return _rewound(report, options)


def rewrite(workspace: Any, options: argparse.Namespace, done: Done) -> int:
    """casrewind rewrite-chat."""
    point = workspace.checkpoint(options.ref)
    site, homes = site_of(workspace), homes_of(workspace)
    planned = rewind.to_checkpoint(site, homes, point, in_place=True, dry_run=True)
    done()
    for line in render.to_be_taken(planned):
        text.remark(line)
    text.remark(f"The conversation of {point.id} will be cut in its own session; as it is now it is kept beside:")
    text.remark(f"  {fsio.show(planned.transcript)}")
    sys.stderr.write(f"Type {_WORD} to do it: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != _WORD:
        raise errors.UsageError(f"nothing was changed: rewrite-chat wants the word {_WORD} typed, on standard input")
    return _rewound(rewind.to_checkpoint(site, homes, point, in_place=True), options)


def _asks(options: argparse.Namespace, changes: bool) -> bool:  # noqa: FBT001 - one meaning
    """Whether a person is asked. Raises UsageError where nobody can be."""
    if options.yes or not changes:
        return False
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise errors.UsageError(f"{options.command} asks before it changes anything, and there is no terminal: say --yes")
    return True


def _rewound(report: Any, options: argparse.Namespace) -> int:
    copied = None
    if getattr(options, "copy", False) and report.prompts:
        from .. import clipboard

        copied = clipboard.copy("\n\n".join(report.prompts))
        if copied is None:
            text.remark("casrewind: note: no clipboard tool was found (wl-copy, xclip, xsel, pbcopy, tmux): nothing was copied")
    if options.json:
        text.as_json(shapes.rewound(report) | ({"copied": copied is not None} if hasattr(options, "copy") else {}))
    else:
        render.rewound(report, copied=copied)
    return REMARKS if report.restored is not None and report.restored.incomplete else OK
