"""The grammar of the command line: one table of every command and option, its reader, and its texts of help. It imports no command."""
