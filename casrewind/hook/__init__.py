"""Hooks: `casrewind hook AGENT`, and the answers to `/casrewind` in a client."""
