"""Prints lines, tables, progress and questions on a terminal, a pipe or a pager. It knows no report."""
