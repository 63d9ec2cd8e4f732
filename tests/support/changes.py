"""Plans or carries out what an operation prepares, and edits files while it is done."""

from casrewind.change import worktree_change
from casrewind.change import revert as reverts
from casrewind.change.worktree_change import ask_and_carry_out


def revert(context, view, turns, scope=(), *, dry_run=False, confirm=None, **options):
    """Take back what turns changed."""
    return ask_and_carry_out(lambda: reverts.prepare_revert(context, view, turns, scope, **options), confirm, dry_run=dry_run)


def edit_before_execution(monkeypatch, edit):
    """`edit()` runs when a change was planned under its lock, before its first file."""
    execute = worktree_change.execute

    def edited(*given):
        edit()
        return execute(*given)

    monkeypatch.setattr(worktree_change, "execute", edited)
