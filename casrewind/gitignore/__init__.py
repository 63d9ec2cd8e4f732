"""Git's ignore rules: reads rule files and git's configuration, and decides which names are ignored."""
