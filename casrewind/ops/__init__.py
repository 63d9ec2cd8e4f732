"""Operations (save, restore, gc ...): the only modules that use both the store and the worktree."""
