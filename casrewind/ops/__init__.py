"""The verbs: the only rooms that know both the store and the worktree."""
