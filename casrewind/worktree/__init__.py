"""The garden: the only rooms that touch the user's files."""
