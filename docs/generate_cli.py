"""Write docs/cli.md: the help of every command, and the exit codes. Run it after a change to the table of commands.

`python docs/generate_cli.py` writes the file; with `--check` it only exits with 1 when the file is stale.
docs/generate_man.py writes the manual page from the same.
"""

import sys
from pathlib import Path

PAGE = Path(__file__).with_name("cli.md")
sys.path.insert(0, str(Path(__file__).parent.parent))

HEAD = """# The command line

`docs/generate_cli.py` writes this page from the table of commands. Change the table, not this page.

## Names for a checkpoint (REF)

| REF | meaning |
|---|---|
| `@1`, `@2`, ... | the state before a prompt; `@1` is the newest prompt of this project, as `list` numbers them |
| `after:@1` | the state that this prompt left |
| `last`, `prev` | the newest checkpoint, and the one before it |
| `3` | a row of `list --all`; 1 is the newest |
| `it works` | a label; of equal labels, the newest of this worktree |
| `10m`, `2h`, `1h30m`, `3d` | so long ago |
| `14:30`, `yesterday`, `yesterday 18:00`, `2026-11-20`, `2026-11-20 18:00` | a point in time; a day without a time of day means its end |
| `c6b1a923358ed39`, `c6b1` | an id, or at least 4 characters that only one id begins with |

`show @1`, `diff @1` and `log` report the change of the turn: from the prompt to the end of the agent's work. A time names the newest
checkpoint that is not later. If no checkpoint is old enough, the exit code is 15. `@N`, `last`, `prev`, numbers and times belong to the current worktree and
skip safety checkpoints.

## Paths

A PATH of `diff`, `restore` and `log` is git's *pathspec*: relative to the current directory (or to `-C DIR`); a directory covers everything
below it; `*` crosses slashes. `:(glob)`, `:(literal)`, `:(icase)`, `:(top)` or `:/`, and `:(exclude)` or `:!` may stand in front. If a path of
exactly that name exists, only it is meant. A pattern that matches nothing is an error (15).

Paths need no `--` in front. A word that is both a checkpoint and a path is an error (64); the message shows both spellings.

Global options may stand before and after the command.

## JSON

With `--json`, a command prints one JSON object on standard output. `format` is 1 in every object. If a command fails before it prints its
report, the object is `{"format": 1, "error": {"code", "message", "hint"}}`: `code` is the exit code, `hint` may be null. The message is on
standard error, too. [casrewind.schema.json](json/casrewind.schema.json) is a JSON schema of the output of each command.

"""

PICKER = """### casrewind alone

On a terminal, `casrewind` without a command is the picker; anywhere else it prints the help. In a project without checkpoints it offers
to save one, or to connect Claude Code. If neither is chosen it exits with 10. `casrewind restore` without a REF opens the picker, too.

![The picker](picker.svg)

On the left is the timeline, two lines for each checkpoint: label and prompt; then when it was made, how many files are not as they
are now, its marks, what made it, and in which session (a colour each). On the right are the files that a restore would change (`+`
comes back, `~` changes, `-` goes), with the lines that come and go, and the patch of the one under the cursor; of binary and large files the sizes. The worktree is
scanned once, when the picker starts and after what it did itself: the plan that is shown before a restore is always made afresh.

| key | does |
|---|---|
| up, down, page up, page down, home, end | move; tab, left and right go from pane to pane |
| `c` or enter, `t`, `b` | restore code, chat (a fork of the conversation), or both; shows the plan, and what is left alone and why, and asks |
| space | choose a file: only chosen ones are restored then |
| `i` | cut the conversation in its own session, in place; asks, keeps a copy beside, and not while its client runs |
| `u`, `U`, `r` | undo, undo with what was edited since, redo; ask first |
| `o` | a restore that was interrupted: finish it (`c`) or take it back (`a`); said and offered at the start, if there is one |
| `p`, `l` | pin or unpin; label, which pins |
| `d` | compare with this checkpoint instead of the worktree; again, or escape: with the worktree |
| `/` | filter by words of a prompt, a label, a session, or a path that changed with the checkpoint |
| `a` | safety checkpoints and other worktrees' of this store, too |
| escape | out of chosen files, a comparison, a filter; then out of the picker |
| `q`, ctrl-C | out; ctrl-C exits with 130, and is no to every question |

![The plan of a restore, and the question](picker-plan.svg)

![What was done](picker-done.svg)

When it ends, what was done is printed, with the commands that undo it and that resume a conversation. `NO_COLOR` is honoured. Where
there is no full screen (`TERM=dumb`, fewer than 40 columns, standard error is none, textual is not installed) there is what
`casrewind list` prints and a prompt instead, whose answers are the same letters, with any REF: `c 3`, `b last`, `c 3 src/a.py`, `d 3`, `u`, `q`; and
`continue` and `abort` for a restore that was interrupted. Where something of a checkpoint is damaged in the store, it is said, and asked whether all the rest is wanted.

"""

CODES = """## Exit codes

| code | means |
|---|---|
| 0 | done; special files, ignored files and built-in excludes do not change that |
| 1 | another failure; the message names it |
| 3 | done, but something was left out: a planned path, a missing path, or a file that was unreadable or kept changing |
| 10 | no project, or no store for it yet |
| 11 | another command holds the lock, or an interrupted restore needs `--continue` or `--abort` |
| 12 | the store has a format that this version does not know |
| 13 | no space left |
| 14 | an unsafe path, a refused root, content in the way that no checkpoint holds, or a store that other users can write to |
| 15 | no such checkpoint, or more than one; no such file in it; no path that exists; nothing to undo or redo |
| 16 | an agent, its settings or its conversation cannot be used |
| 20 | the store is damaged |
| 64 | the command line or a setting is wrong, or a question needs a terminal |
| 70 | a bug in casrewind; the message names the log |
| 130 | interrupted |

`run` exits as its command does. It exits with 127 if the command is missing, with 126 if it cannot be run, and with 128 + N after signal N.

casrewind itself never exits with 2, because coding agents read 2 as "block".
"""


def page() -> str:
    """The whole page."""
    from casrewind.cli import help as texts
    from casrewind.cli.options_more import COMMANDS

    parts = [HEAD, section("casrewind", texts.overview()), PICKER, section("casrewind help --all", texts.everything(80))]
    parts += [section(f"casrewind {name}", texts.of_command(name, 80)) for name in COMMANDS]
    return "".join([*parts, CODES])


def section(title: str, text: str) -> str:
    """One help, as it is printed."""
    return f"## {title}\n\n```text\n{text.rstrip()}\n```\n\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
