"""Every kind of thing that can stand at a path, and how to make one be another."""

import os
import shutil

KINDS = ("absent", "file", "executable", "link", "dangling", "empty", "full")


def clear(path):
    """Remove whatever stands at a path."""
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)


def make(path, kind, text):
    """Let `kind` stand at a path. `text` makes the bytes differ from another making of the same kind."""
    clear(path)
    if kind == "absent":
        return
    if kind in ("file", "executable"):
        with open(path, "w") as file:
            file.write(f"{kind} {text}\n")
        os.chmod(path, 0o755 if kind == "executable" else 0o644)
    elif kind == "link":
        os.symlink(f"elsewhere/{text}", path)
    elif kind == "dangling":
        os.symlink(f"/nowhere/{text}", path)
    else:
        os.mkdir(path, 0o755)
        if kind == "full":
            os.mkdir(os.path.join(path, "inner"))
            for name in ("one", "inner/two"):
                with open(os.path.join(path, name), "w") as file:
                    file.write(f"{name} {text}\n")
            os.symlink("one", os.path.join(path, "link"))
