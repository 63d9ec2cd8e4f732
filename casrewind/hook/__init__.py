"""Hooks: `casrewind hook AGENT`, the helper that does their work, and the messages between the two."""
