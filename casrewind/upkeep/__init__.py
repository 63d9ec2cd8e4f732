"""What changes the store: checkpoints are made, marked, forgotten, purged and verified."""
