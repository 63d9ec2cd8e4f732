"""Who is compared: one record per tool, with the commands it is used by.

Every contender has a tree of its own (equal copies) and a directory of its own for everything it keeps; no tool sees
another's files. Where a choice had to be made it is the one that is quicker for the other tool: making an empty
repository and asking for a checkpoint's name are not timed; git's four commands run in one shell without start-up files.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace

from casrewind import launch

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REFERENCE = "{reference}"
_REF = "refs/casrewind-benchmark/last"


@dataclass(frozen=True)
class Place:
    """Where a contender works: its tree, the directory for its store, caches and configuration, and the one for old ones."""

    tree: str
    kept: str
    old: str


@dataclass(frozen=True)
class Contender:
    """A tool. Commands are argument lists, run in the tree with `environ`.

    `make` prepares an empty store and `reference` prints the newest checkpoint's name: neither is timed. REFERENCE in
    `restore` stands for that name. `diff` names what is otherwise than in the newest checkpoint, `lists` prints the newest
    `{number}` ones, `fill` makes so many as quickly as the tool can (not timed). None: the tool has nothing of the kind.
    `inside`: directories that the tool makes in the tree. `omits`: operations that say nothing of this tool, `only`: all that do; a
    first save is made all the same. `slow`: not made for saving at every turn; a quick run asks it for less.
    """

    name: str
    place: Place
    environ: dict
    save: list
    restore: list | None
    first: list | None = None
    make: list | None = None
    reference: list | None = None
    diff: list | None = None
    lists: list | None = None
    fill: list | None = None
    inside: tuple = ()
    only: frozenset | None = None
    omits: frozenset = frozenset()
    slow: bool = False

    def does(self, operation):
        """Whether the tool has what an operation needs, and the operation says something of it."""
        needed = {
            "restore": self.restore, "restore-many": self.restore, "diff": self.diff,
            "session": self.lists, "list": self.lists, "list-many": self.fill,
        }  # fmt: skip
        if operation in self.omits or (self.only is not None and operation not in self.only):
            return False
        return needed.get(operation, self.save) is not None

    def forget(self):
        """Put everything that the tool keeps aside, and make its empty place again.

        It is not removed before the run ends: where thousands of files were just removed, making new ones was seen to
        take several times as long for minutes, and whoever makes most files would pay for it.
        """
        os.makedirs(self.place.old, exist_ok=True)
        for path in filter(os.path.lexists, self.stores()):
            os.rename(path, os.path.join(self.place.old, str(len(os.listdir(self.place.old)))))
        os.makedirs(self.place.kept)

    def stores(self):
        """The directories that hold what the tool keeps."""
        return [self.place.kept, *(os.path.join(self.place.tree, name) for name in self.inside)]


def casrewind_command():
    """The console script beside this interpreter when there is one, else the module. Both run this checkout's code."""
    script = os.path.join(os.path.dirname(sys.executable), "casrewind")
    return [script] if os.access(script, os.X_OK) else [sys.executable, "-m", "casrewind"]


def _casrewind(place, environ, name="casrewind", command=None):
    command = command or casrewind_command()
    return Contender(
        name, place, {**environ, "CASREWIND_HOME": place.kept, "PYTHONPATH": TOP},
        save=[*command, "save"], restore=[*command, "restore", "--yes", "last"], diff=[*command, "diff", "last"],
        lists=[*command, "list", "-n", "{number}"], fill=[sys.executable, "-m", "benchmarks.compare.fill", "{number}"],
    )  # fmt: skip


def _casrewind_bare(place, environ):
    """The same, started as the hooks start it that `casrewind install` writes: the interpreter alone, without `site`."""
    one = _casrewind(place, environ, "casrewind-bare", launch.own_command())
    kept = {"unchanged", "edited", "edited-many", "restore", "restore-many", "diff"}
    return replace(one, only=frozenset(kept))


def _git(place, environ, name="git", options=()):
    """A snapshot through a temporary index, as tools do it that keep checkpoints in git."""
    git = shlex.join(["git", *options])
    save = (
        f"{git} add -A && tree=$({git} write-tree) && commit=$({git} commit-tree%s -m checkpoint $tree) && "
        f"{git} update-ref {_REF} $commit"
    )
    return Contender(
        name, place,
        {
            **environ,
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gc.auto", "GIT_CONFIG_VALUE_0": "0",  # none in the background of others' times
            "GIT_DIR": os.path.join(place.kept, "git"), "GIT_WORK_TREE": place.tree,
            "GIT_INDEX_FILE": os.path.join(place.kept, "git", "temporary-index"),
            "GIT_AUTHOR_NAME": "benchmark", "GIT_AUTHOR_EMAIL": "benchmark@localhost",
            "GIT_COMMITTER_NAME": "benchmark", "GIT_COMMITTER_EMAIL": "benchmark@localhost",
        },
        make=["git", "init", "--quiet", "--template="],
        first=["sh", "-c", save % ""],
        save=["sh", "-c", save % f" -p {_REF}"],
        restore=["git", *options, "restore", f"--source={_REF}", "--staged", "--worktree", "--", "."],
        diff=["git", *options, "diff", "--name-status", _REF],
        lists=["git", *options, "log", "--format=%h %cI %s", "-n", "{number}", _REF],
        fill=["sh", "-c", _FILL],
    )  # fmt: skip


_FILL = f"""set -e
git add -A
tree=$(git write-tree) commit=
for number in $(seq {{number}}); do commit=$(git commit-tree ${{commit:+-p $commit}} -m "checkpoint $number" $tree); done
git update-ref {_REF} $commit"""


def _git_fsync(place, environ):
    one = _git(place, environ, "git-fsync", ("-c", "core.fsync=all"))
    return replace(one, omits=frozenset({"session", "list", "list-many"}))


def _git_stash(place, environ):
    """`git stash create` in an ordinary repository: it leaves out untracked files, and has no first save: there, it is a
    commit of everything, which is not shown."""
    one = _git(place, environ, "git-stash")
    base = f"git add -A && git commit --quiet -m base && git update-ref {_REF} HEAD"
    return replace(
        one, first=["sh", "-c", base], save=["sh", "-c", f"id=$(git stash create) && git update-ref {_REF} ${{id:-HEAD}}"],
        omits=frozenset({"first", "disk", "memory", "session", "list", "list-many"}),
    )  # fmt: skip


def _restic(place, environ):
    newer = _numbers(version("restic")) >= (0, 17)
    return Contender(
        "restic", place,
        {
            **environ,
            "RESTIC_REPOSITORY": os.path.join(place.kept, "repository"), "RESTIC_PASSWORD": "benchmark",
            "RESTIC_CACHE_DIR": os.path.join(place.kept, "cache"),
        },
        make=["restic", "init", "--quiet"],
        save=["restic", "backup", "--quiet", "."],
        # before 0.17 it cannot leave alone what is there already
        restore=["restic", "restore", "latest", "--target", ".", *(["--overwrite", "if-changed"] if newer else [])], slow=True,
    )  # fmt: skip


def _borg(place, environ):
    return Contender(
        "borg", place,
        {
            **environ,
            "BORG_REPO": os.path.join(place.kept, "repository"), "BORG_BASE_DIR": place.kept,
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes", "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        },
        make=["borg", "init", "--encryption", "none"],
        save=["borg", "create", "::{utcnow:%Y%m%d%H%M%S%f}", "."],
        restore=["borg", "extract", f"::{REFERENCE}"],
        reference=["borg", "list", "--last", "1", "--format", "{archive}"], slow=True,
    )  # fmt: skip


def _bup(place, environ):
    """Its restore refuses to write into a directory with something in it."""
    return Contender(
        "bup", place, {**environ, "BUP_DIR": os.path.join(place.kept, "repository")},
        make=["bup", "init"], save=["sh", "-c", "bup index . && bup save --quiet --strip -n saves ."], restore=None, slow=True,
    )  # fmt: skip


def _stepback(place, environ):
    """It has no save: a session around a command that does nothing is the nearest, and saves at its start and end."""
    return Contender(
        "stepback", place, {**environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull},
        save=["stepback", "run", "--", "true"], restore=["stepback", "rewind", "--yes"], inside=(".stepback",),
        slow=True,
    )  # fmt: skip


def _unedit(place, environ):
    return Contender(
        "unedit", place, environ,
        save=["unedit", "save"], restore=["unedit", "back", "--yes", "--hard"], inside=(".unedit",),
        diff=["unedit", "diff"], slow=True,
    )  # fmt: skip


_MAKERS = {
    "casrewind": _casrewind,
    "casrewind-bare": _casrewind_bare,
    "git": _git,
    "git-fsync": _git_fsync,
    "git-stash": _git_stash,
    "restic": _restic,
    "borg": _borg,
    "bup": _bup,
    "stepback": _stepback,
    "unedit": _unedit,
}
NAMES = tuple(_MAKERS)
_VERSION = {"restic": ["restic", "version"], "stepback": None}


def build(name, place, environ):
    """The contender of that name. `environ`: the variables that every process gets."""
    return _MAKERS[name](place, environ)


def absent(name):
    """Why a tool cannot take part, or ""."""
    if name.startswith("casrewind"):
        return ""
    program = "git" if name.startswith("git-") else name
    if shutil.which(program) is None:
        return "not installed"
    if name == "git-fsync" and _numbers(version("git")) < (2, 36):
        return "needs git 2.36 or newer for core.fsync"
    if name == "stepback" and shutil.which("git") is None:
        return "needs git, which is not installed"
    return ""


def version(name):
    """What the tool says of its version, in one line; "unknown" when it does not say."""
    if name.startswith("casrewind"):
        command = [*casrewind_command(), "--version"]
    else:
        program = "git" if name.startswith("git-") else name
        command = _VERSION.get(program, [program, "--version"])
    if command is None:
        return _distribution(name)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": TOP})
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip().partition("\n")[0] or "unknown"


def _distribution(name):
    """The version of a Python tool that does not say it, from the metadata beside its script."""
    libraries = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(shutil.which(name)))), "lib")
    for directory, inside, _ in os.walk(libraries):
        for found in inside:
            match = re.fullmatch(rf"{name}-(.+)\.dist-info", found)
            if match:
                return f"{name} {match[1]}"
        if os.path.basename(directory) == "site-packages":
            inside.clear()
    return "unknown"


def _numbers(text):
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
