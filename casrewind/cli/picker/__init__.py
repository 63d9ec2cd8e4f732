"""The picker: `casrewind` without a command, on a terminal. It shows the timeline, previews each restore, and restores.

The danger prevented here: a person in a hurry increases the damage. Nothing changes before the person agrees to the
plan. Escape, ctrl-C and the end of input answer no to every question. Every change can be undone.

`timeline` reads checkpoints and `state` has what is shown and chosen; both know no screen. `worker` is the only thread
that may use the open project. `app`, `keys`, `view` and `widgets` are the screen; only they import textual.
`commands/pick.py` starts it, or asks at a plain prompt where there is no screen.
"""
