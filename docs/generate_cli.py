"""Write docs/cli.md: the help of every command, and the exit codes. Run it after a change to the table of commands.

`python docs/generate_cli.py` writes the file; with `--check` it only exits with 1 when the file is stale.
docs/generate_man.py writes the manual page from the same.
"""

import sys
from pathlib import Path

PAGE = Path(__file__).with_name("cli.md")
sys.path.insert(0, str(Path(__file__).parent.parent))

HEAD = """# The command line

`docs/generate_cli.py` generates this page from the commands in `casrewind/cli/commands`. Edit those files, not this page.

## Names for a checkpoint (REF)

| REF | meaning |
|---|---|
| `@1`, `@2`, ... | the state before a prompt. `list` shows the numbers; `@1` is the newest prompt of this project |
| `1`, `2`, ... | the same as `@1`, `@2`, ... in every command |
| `after:@1` | the state after prompt `@1`, when the agent had finished |
| `last`, `prev` | the newest checkpoint, and the one before it. `restore`, `revert` and `undo` do not make a new `last`, so `restore last` after a revert brings the reverted change back |
| `it works` | a label. If several checkpoints have it, the newest one in this worktree. casrewind refuses labels that look like another REF in this table |
| `10m`, `2h`, `1h30m`, `3d` | the newest checkpoint that is at least so old |
| `14:30`, `yesterday`, `yesterday 18:00`, `2026-11-20`, `2026-11-20 18:00` | the newest checkpoint before that time. A date without a time means the end of that day |
| `c6b1a923358ed39`, `c6b1` | an id, or at least its first 4 characters, if no other id starts with them |
| `remote:@1`, `remote:after:@1`, `remote:last` | a checkpoint that you pulled from the other machine, if there is only one |
| `sandbox-4:@1`, `sandbox-4:after:@1`, `sandbox-4:last` | a checkpoint that you pulled from the machine `sandbox-4` |

`show @1`, `diff @1` and `log` show what changed between the prompt and the end of the agent's turn. If no checkpoint is old enough for a
time, casrewind exits with 15. Turns, `last`, `prev` and times mean only checkpoints of the current worktree, and never
safety checkpoints.

After the name of a machine, you can type any REF of this table except a bare number. `list --remote` lists the checkpoints of other machines. `restore`, `back`, `show`, `diff`,
`cat`, `pin` and `unpin` accept them, but `revert` does not. With `--keep-edits`, `restore` and `back` merge what both machines did since the newest state that
both had. A REF without a machine's name always means a checkpoint of this machine.

## Paths

A PATH of `diff`, `restore` and `log` is a git *pathspec*, relative to the current directory (or to `-C DIR`). A directory means everything
below it, and `*` also matches slashes. A PATH may begin with `:(glob)`, `:(literal)`, `:(icase)`, `:(top)` or `:/`, and `:(exclude)` or `:!`. If a path of
exactly that name exists, PATH means only this path. If a pattern matches nothing, casrewind exits with 15.

You need not put `--` before paths. If a word is both a checkpoint and a path, casrewind exits with 64, and the message shows how to write each.

You can put global options before or after the command.

## JSON

With `--json`, a command prints one JSON object on standard output. In every object, `format` is 1. If a command fails before it prints its
report, it prints `{"format": 1, "error": {"code", "message", "hint"}}`. `code` is the exit code, and `hint` may be null. The command also prints the message on
standard error. [casrewind.schema.json](json/casrewind.schema.json) is a JSON schema of the output of each command.

## Hunks

`restore -p REF [PATH ...]` shows what a restore would change in each file, hunk by hunk, and asks about each hunk. Answer with the letters of `git add -p`.
`y` and `n` apply a hunk or not. `a` and `d` do the same for all later hunks of the file. `q` ends the questions. `j` and `k` leave a hunk undecided and go to the next or the previous
undecided one. `g` goes to a hunk by its number, `s` splits a hunk, and `?` shows the letters. A new, removed or binary file, a link and a change of a mode are one
hunk each. Nothing changes before your last answer. casrewind then shows the plan and carries it out without another question. You can pipe answers,
one per line; the end of the input means `q`. If a file that you chose changes in the meantime, casrewind changes nothing.
`revert -p @N [PATH ...]` asks in the same way about what a revert would change, except for files with conflicts.

"""

PICKER = """### casrewind alone

In a terminal, `casrewind` without a command opens the picker. Without a terminal, it prints the help. In a project without checkpoints, casrewind offers
to save one, or to connect Claude Code. If you choose neither, it exits with 10. `casrewind restore` without a REF opens the picker, too.

![The picker](images/picker-timeline-80x24.svg)

Each line is a turn, with its number, prompt, age, numbers of files, agent and session. `+` counts added files, `~` changed ones, and
`-` removed ones. Each session has its own colour. Between turns you see saves, restores, and edits outside of a turn. These rows are dim, and so are turns that
changed nothing or that you took back. In a narrow terminal, the picker shortens or leaves out the age and the session to make room for the prompt.
The picker starts at the newest turn that changed something. `enter` opens a turn. An open turn shows the whole prompt, the files as a tree with removals
first, and the patch of a file.

![An open turn](images/picker-turn-160x50.svg)

`v` switches between two views. *This turn* shows what the prompt did. *To here* shows what a restore to before the prompt would change now.
The restore would bring back files marked `+`, change those marked `~`, and delete those marked `-`. The picker scans the project at the start and after each action. It always
makes a new plan before a restore.

| key | what it does |
|---|---|
| `j` `k`, arrows, page up, page down, ctrl-d, ctrl-u, `g`, `G` | move by a line, a page or half a page, or to the first or last line |
| `n`, `N` | go to the next older turn, or the next newer one; open panes then show that turn |
| `[` `]` | go to the next turn of another session; in the files, to the next row; in an open file, to the next hunk |
| enter | open a turn, a directory or a file |
| escape | go one step back, or end the filter; escape never quits the picker |
| right, left | unfold a turn into its checkpoints, or unfold a directory; fold it again |
| tab | go to the next pane |
| `v` | switch between *this turn* and *to here* |
| `/` | filter by words in prompts, labels, sessions and changed paths; in the files, by words in paths |
| `a` | show every checkpoint, including those of other worktrees; in the files, choose all; in an open file, choose all hunks |
| space, `J`, `K` | choose a file or a directory; `J` and `K` choose while you move; in an open file, choose a hunk |
| `c`, `t`, `b` | restore files, fork the conversation, or do both, to before the turn, edit or restore of the row, or to its save. If you chose files or hunks, the picker restores only these. In an open file, and in filtered files, you must choose something first. The picker shows the plan and asks |
| `x` | take back what the turn changed, or only the chosen files and hunks, or the open file, and keep later changes. The picker shows the plan and asks |
| `i` | cut the conversation back in the same session; the picker asks, and keeps a copy |
| `u`, `U`, `r` | undo, undo even files that were edited later, or redo. The picker shows the plan and asks |
| `o` | finish or reverse an interrupted restore |
| `p`, `l` | pin or unpin a checkpoint; label it, which also pins it |
| `m` | mark everything up to this row as reviewed; `casrewind review` then shows only what is new |
| `d` | compare other rows with this row; press `d` or escape to end the comparison |
| `B` | in the files: show who wrote each line of the current file; press `B` or escape to see the patch again |
| `e` | open the file in `$VISUAL` or `$EDITOR` |
| `y` | copy the path, the id or the prompt to the terminal's clipboard (OSC 52) |
| `?` | show the keys |
| `q`, ctrl-C | quit; ctrl-C exits with 130, and answers no to every question |

![Hunks of a file](images/picker-hunks-160x50.svg)

![The plan of a restore, and the question](images/picker-plan-80x24.svg)

When you quit, the picker prints what it did, how to undo it, and how to resume the conversation. Set `NO_COLOR` to turn colours off.

If the picker cannot use the full screen, it prints what `casrewind list` prints, and reads answers at a prompt. It does so with `TERM=dumb`, with fewer than
40 columns, if standard error is not a terminal, or if textual is not installed. Answer with the same letters, and with any REF: `c 3`, `b last`,
`c 3 src/a.py`, `d 3`, `u`, `q`. After an interrupted restore, you can answer `continue` or `abort`. If a checkpoint is damaged in the store, the picker names
the damage, and asks whether to restore everything else.

"""

CODES = """## Exit codes

| code | means |
|---|---|
| 0 | the command is done, even if it left out special files, ignored files or built-in excludes |
| 1 | the command failed for another reason, which the message names |
| 3 | the command finished, but left something out: a planned path, a missing path, or a file that was unreadable or kept changing. For bisect: several states may be the first bad one. For data from another machine: a file or a message is missing |
| 10 | there is no project here, or it has no checkpoints yet |
| 11 | another command uses the store, or an interrupted restore needs `--continue` or `--abort` |
| 12 | the store has a format that this version does not know |
| 13 | the disk or the store has no space left |
| 14 | casrewind refuses an unsafe path, a project directory, a file in the way that no checkpoint holds, an open database, or a store that other users can write to |
| 15 | casrewind cannot find the checkpoint, the file or the path, or more than one checkpoint matches; there is nothing to undo or redo; or the conversation continues in another directory |
| 16 | casrewind cannot use an agent, its settings or its conversation; or the command of bisect does not tell good states from bad ones |
| 17 | the remote is damaged, cannot be reached, or refused a request |
| 20 | the store is damaged |
| 64 | the command line or a setting is wrong, or a question needs a terminal |
| 70 | you found a bug in casrewind; the message names the log |
| 130 | you interrupted the command |

`run` exits with the exit code of its command. It exits with 127 if the command is missing, with 126 if it cannot be run, and with 128 + N after signal N.

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
