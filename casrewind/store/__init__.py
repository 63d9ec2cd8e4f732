"""The cellar: the only rooms that know the store directory."""
