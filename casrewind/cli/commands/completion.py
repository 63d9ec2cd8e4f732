"""The command that prints what makes a shell complete casrewind's command line."""

import argparse

from ...typed import Any
from ..render.text import say
from . import OK


def completion(_settings: Any, options: argparse.Namespace) -> int:
    """casrewind completion."""
    from argcomplete.shell_integration import shellcode

    say(shellcode(["casrewind"], shell=options.shell).strip())
    return OK
