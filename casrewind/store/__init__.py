"""The store: the only package that knows the structure of a store directory."""
