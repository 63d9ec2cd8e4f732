"""Found before the package of this name: the import fails as it does where the package is not installed."""

raise ModuleNotFoundError("No module named 're2'", name="re2")
