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
| `1`, `2`, ... | the same, in every command: `3` is `@3` |
| `after:@1` | the state that this prompt left |
| `last`, `prev` | the newest checkpoint, and the one before it. `restore`, `revert` and `undo` make none of these: after a revert, `restore last` brings the reverted change back |
| `it works` | a label; of equal labels, the newest of this worktree. A label of another form of this table is refused |
| `10m`, `2h`, `1h30m`, `3d` | so long ago |
| `14:30`, `yesterday`, `yesterday 18:00`, `2026-11-20`, `2026-11-20 18:00` | a point in time; a day without a time of day means its end |
| `c6b1a923358ed39`, `c6b1` | an id, or at least 4 characters that only one id begins with |
| `remote:@1`, `remote:after:@1`, `remote:last` | a pulled checkpoint of the only other machine |
| `sandbox-4:@1`, `sandbox-4:after:@1`, `sandbox-4:last` | a pulled checkpoint of the machine with that name |

`show @1`, `diff @1` and `log` report the change of the turn: from the prompt to the end of the agent's work. A time names the newest
checkpoint that is not later. If no checkpoint is old enough, the exit code is 15. Turns, `last`, `prev` and times belong to the current worktree and
skip safety checkpoints.

Behind the name of a machine stands any REF of this table but a bare number. `list --remote` lists these checkpoints. `restore`, `back`, `show`, `diff`,
`cat`, `pin` and `unpin` take them; `revert` does not. With `--keep-edits`, `restore` and `back` merge what both machines did since the newest state that
both had. Nothing here changes what a name without a machine means.

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

## Hunks

`restore -p REF [PATH ...]` shows the change of each file that a restore would make, hunk by hunk, and asks. The letters are those of `git add -p`:
`y` `n` apply it or not; `a` `d` the same for all that follow in the file; `q` ask no more; `j` `k` leave it undecided and go to the next or the previous
undecided one; `g` go to a hunk by its number; `s` split it; `?` show the letters. A new, removed or binary file, a link and a change of a mode are one
hunk each. Nothing changes before the last answer. Then the plan is shown and carried out without a further question. Answers may come from a pipe,
one in a line; the end of the input is `q`. If a chosen file changes while it asks, nothing is changed.
`revert -p @N [PATH ...]` asks in the same way about what a revert would change; files with conflicts are not asked about.

"""

PICKER = """### casrewind alone

On a terminal, `casrewind` without a command is the picker; anywhere else it prints the help. In a project without checkpoints it offers
to save one, or to connect Claude Code. If neither is chosen it exits with 10. `casrewind restore` without a REF opens the picker, too.

![The picker](images/picker-timeline-80x24.svg)

Each line is a turn: its number, its prompt, its age, its counts of files, its agent and session. `+` counts added files, `~` changed ones,
`-` removed ones. Each session has a colour. Between turns are saves, restores, and edits outside of a turn. These rows are dim, and so are turns that
changed nothing or were taken back. The prompt has most of the line: where columns are few, the age is short, and session and age are left out.
The picker opens on the newest turn that changed something. `enter` opens a turn. It shows the whole prompt, the files as a tree with removals
first, and the patch of a file.

![An open turn](images/picker-turn-160x50.svg)

`v` switches between two views. *This turn* shows what the prompt did. *To here* is what a restore to before the prompt changes now.
`+` comes back, `~` changes, `-` is deleted. The worktree is scanned at the start and after each action of the picker. The plan of a restore is always
made afresh.

| key | what it does |
|---|---|
| `j` `k`, arrows, page up, page down, ctrl-d, ctrl-u, `g`, `G` | move by lines, pages, half pages, to the first and the last line |
| `n`, `N` | go to the next older turn, or the next newer one; what is open stays open and shows that turn |
| `[` `]` | go to the next turn of another session; in the files to the next row; in an open file to the next hunk |
| enter | open a turn, a directory or a file |
| escape | go one step back, or end the filter that is typed; it never leaves the picker |
| right, left | unfold a turn into its checkpoints, or a directory; fold it |
| tab | go to the next pane |
| `v` | switch between *this turn* and *to here* |
| `/` | filter by words of prompts, labels, sessions and changed paths; in the files by words of paths |
| `a` | show every checkpoint, those of other worktrees too; in the files choose all; in an open file choose all hunks |
| space, `J`, `K` | choose a file or a directory, or several while moving; in an open file choose a hunk |
| `c`, `t`, `b` | restore files, fork the conversation, or both: to before the turn, the edit or the restore of the row, or to its save; only chosen files and hunks, if there are any. In an open file, and in filtered files, something must be chosen first. The picker shows the plan and asks |
| `x` | take back what the turn changed, or only the chosen files and hunks, or the open file; keep what was done since. The picker shows the plan and asks |
| `i` | cut the conversation in its own session; it asks, and keeps a copy |
| `u`, `U`, `r` | undo, undo with later edits too, redo. The picker shows the plan and asks |
| `o` | finish or reverse an interrupted restore |
| `p`, `l` | pin or unpin; label, which pins |
| `m` | mark as looked at, up to this row, forward or back: `casrewind review` shows what is new then |
| `d` | compare further rows with this row; again, or escape, ends that |
| `B` | in the files: show who wrote each line of the file, as it is now; again, or escape: its patch |
| `e` | open the file in `$VISUAL` or `$EDITOR` |
| `y` | copy the path, the id or the prompt to the terminal's clipboard (OSC 52) |
| `?` | show the keys |
| `q`, ctrl-C | quit; ctrl-C exits with 130, and is no to every question |

![Hunks of a file](images/picker-hunks-160x50.svg)

![The plan of a restore, and the question](images/picker-plan-80x24.svg)

At its end the picker prints what was done, how to undo it, and how to resume the conversation. `NO_COLOR` turns colours off.

Without a full screen, the picker prints what `casrewind list` prints, and reads answers at a prompt. This happens with `TERM=dumb`, with fewer than
40 columns, if standard error is not a terminal, or if textual is not installed. The answers are the same letters, with any REF: `c 3`, `b last`,
`c 3 src/a.py`, `d 3`, `u`, `q`. After an interrupted restore there are `continue` and `abort`. If a checkpoint is damaged in the store, the picker names
the damage, and asks whether to restore everything else.

"""

CODES = """## Exit codes

| code | means |
|---|---|
| 0 | done; special files, ignored files and built-in excludes do not change that |
| 1 | another failure; the message names it |
| 3 | done, but something was left out: a planned path, a missing path, or a file that was unreadable or kept changing; of a bisect: several states may be the first bad one; of what another machine sent: a file or a message is lacking |
| 10 | no project, or no store for it yet |
| 11 | another command holds the lock, or an interrupted restore needs `--continue` or `--abort` |
| 12 | the store has a format that this version does not know |
| 13 | no space left |
| 14 | an unsafe path, a refused root, content in the way that no checkpoint holds, a database that a program has open, or a store that other users can write to |
| 15 | no such checkpoint, or more than one; no such file in it; no path that exists; nothing to undo or redo; a conversation goes on in another directory |
| 16 | an agent, its settings or its conversation cannot be used; a bisect whose command tells no good from bad |
| 17 | a remote refuses something, cannot be reached, or is damaged |
| 20 | the store is damaged |
| 64 | the command line or a setting is wrong, or a question needs a terminal |
| 70 | a bug in casrewind; the message names the log |
| 130 | interrupted |

`run` exits as its command does. It exits with 127 if the command is missing, with 126 if it cannot be run, and with 128 + N after signal N.

casrewind itself never exits with 2, because coding agents read 2 as "block".
"""


def page() -> str:
    """The whole page."""
    from casrewind.cli.grammar import help as texts
    from casrewind.cli.grammar.command_table import COMMANDS

    parts = [HEAD, section("casrewind", texts.short_help()), PICKER, section("casrewind help --all", texts.full_help())]
    parts += [section(f"casrewind {name}", texts.command_help(name, 80)) for name in COMMANDS]
    return "".join([*parts, CODES])


def section(title: str, text: str) -> str:
    """One help, as it is printed."""
    return f"## {title}\n\n```text\n{text.rstrip()}\n```\n\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
