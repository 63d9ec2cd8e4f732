"""The command line. Only this package reads argv, prints, and exits."""
