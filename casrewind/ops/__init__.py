"""Operations (save, restore, gc ...): what changes the files or the store. Questions stand below them, in history."""
