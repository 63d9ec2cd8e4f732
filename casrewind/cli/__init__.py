"""The command line: the only rooms that read argv and the environment, print, and exit."""
