"""The clipboard, by whichever tool this machine has."""

import os
import shutil
import subprocess

_TOOLS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("", ("clip.exe",)),
    ("", ("termux-clipboard-set",)),
    ("TMUX", ("tmux", "load-buffer", "-w", "-")),
)
"""(the variable without which it is of no use, "" = none; the command that takes the text on its input)."""
_PATIENCE = 5.0


def copy(text: str) -> str | None:
    """Put text on the clipboard; the tool that took it, None when there is none or none did."""
    for variable, command in _TOOLS:
        if (variable and not os.environ.get(variable)) or shutil.which(command[0]) is None:
            continue
        null = subprocess.DEVNULL  # some of them stay to serve the text: they must hold none of our pipes
        try:
            done = subprocess.run(
                command, input=text.encode("utf-8", "replace"), stdout=null, stderr=null, timeout=_PATIENCE, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command[0]
    return None
