"""Checkpoints on another machine, or in a bucket: push, pull and clone. Needs the extra `casrewind[remote]`."""
