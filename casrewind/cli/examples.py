"""An example of every command, for its --help: a test holds that each is there and parses."""

EXAMPLES = {
    "save": ("casrewind save -m 'before the clean-up'",),
    "list": ("casrewind list -n 10",),
    "show": ("casrewind show last",),
    "cat": ("casrewind cat prev:README.md > README.old",),
    "log": ("casrewind log src/till.py -n 3 --patch",),
    "diff": ("casrewind diff", "casrewind diff 3 last --patch -- src", "casrewind diff -- '*.py' ':!tests'"),
    "restore": ("casrewind restore last", "casrewind restore 3 --dry-run -- src", "casrewind restore 3 --to ../before"),
    "jump": ("casrewind jump 2",),
    "back": ("casrewind back 1 --both",),
    "rewrite-chat": ("casrewind rewrite-chat 2",),
    "undo": ("casrewind undo",),
    "redo": ("casrewind redo",),
    "run": ("casrewind run -m 'new formatter' -- make format",),
    "gc": ("casrewind gc --max-age 14d --dry-run",),
    "du": ("casrewind du --by path --depth 2",),
    "pin": ("casrewind pin last 'it works'",),
    "unpin": ("casrewind unpin 'it works'",),
    "stores": ("casrewind stores --prune-missing 30d --dry-run",),
    "adopt": ("casrewind adopt ../the-name-before",),
    "purge": ("casrewind purge .env --dry-run", "casrewind purge --glob '*.pem' --dry-run", "casrewind purge --text - < secret.txt"),
    "verify": ("casrewind verify --quick",),
    "install": ("casrewind install claude",),
    "uninstall": ("casrewind uninstall claude",),
    "doctor": ("casrewind doctor",),
    "config": ("casrewind config",),
    "status": ("casrewind status",),
    "watch": ("casrewind watch --idle 2h",),
    "completion": ("casrewind completion bash >> ~/.bashrc",),
}


def epilog(command: str) -> str | None:
    """What stands at the end of a command's --help."""
    found = EXAMPLES.get(command, ())
    return f"Example{'s' if len(found) > 1 else ''}: {'; '.join(found)}" if found else None
