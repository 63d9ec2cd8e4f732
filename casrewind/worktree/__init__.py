"""The worktree: the only modules that read or change the user's files."""
