"""The command line. Only this package reads argv and the environment, prints, and exits."""
