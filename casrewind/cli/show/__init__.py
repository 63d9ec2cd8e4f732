"""Turns the reports of operations into lines. It prints nothing and knows no terminal."""
