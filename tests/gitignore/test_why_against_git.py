"""`casrewind why` against `git check-ignore`, for paths as people type them: not there, behind links, with slashes, the root."""

import os
import random
import shutil
import subprocess

import pytest

from support.command_in_process import InProcess
from support.trees import plant

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with")

NAMES = ["src", "data", "build", "env", "a.pyc", "b.log", "keep.log", "x y", "[1]", "é", "new", "none"]
RULES = ["*.pyc", "*.log", "!keep.log", "build/", "/data/*", "!/data/keep.log", "env", "src/**/new", "/new", "data/", "*", "!*/", "*/", "x y",
         "\\[1]", "!env", "!a.pyc", "**/none/*", "!src/", "é/", "none", "/src/data/build"]  # fmt: skip
INCLUDING = ["!env", "!a.pyc", "!keep.log", "!data/", "!new", "!b.*"]
LINKS = {"to_data": "data", "src/to_file": "../a.pyc", "dangling": "nowhere", "data/to_src": "../src"}


@pytest.fixture
def casrewind(root, home):
    return InProcess(root, home)


def make_repository(rng, root, environment):
    """A repository with rules in many directories, in .git/info/exclude and in the user's own file; some directories and files are there."""
    shutil.rmtree(root)
    subprocess.run(["git", "init", "-q", str(root)], check=True, env=environment)
    some = [name for name in NAMES if name != "none"]
    for name in ("data", "src"):
        (root / name).mkdir()
    for _ in range(14):
        place = root.joinpath(*(rng.choice(some) for _ in range(rng.randint(0, 3))))
        if not any(above.is_file() for above in (place, *place.parents)):
            place.mkdir(parents=True, exist_ok=True)
            if rng.random() < 0.5:
                plant(place, {".gitignore": "".join(rule + "\n" for rule in rng.sample(RULES, rng.randint(1, 4))).encode()})
            name = rng.choice(some)
            if not (place / name).exists():
                (place / name).write_bytes(b"x")
    broad = ("*", "!*/", "*/")
    lines = [*rng.sample([rule for rule in RULES if rule not in broad], 4), *rng.sample(INCLUDING, 2)]
    lines[:0] = ["*"] if rng.random() < 0.2 else []
    (root / ".gitignore").write_text("".join(line + "\n" for line in lines))
    (root / ".git" / "info" / "exclude").write_text("# these are yours\n" + rng.choice(RULES[:8]) + "\n")
    for link, target in LINKS.items():
        (root / link).symlink_to(target)


def some_path(rng, root):
    """A path as a person may type it."""
    parts = [rng.choice(NAMES) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.25:
        parts = [*rng.choice(list(LINKS)).split("/"), *parts[: rng.randint(0, 2)]]
    if rng.random() < 0.1:
        parts.insert(rng.randint(0, len(parts)), rng.choice([".", ""]))
    if rng.random() < 0.1:
        parts.insert(rng.randint(1, len(parts)), "..")
    path = "/".join(parts).lstrip("/") + rng.choice(["", "", "", "/", "/", "/.", "//"])
    if rng.random() < 0.04:
        path = rng.choice([".", "./", "src/..", "none/../"])
    return f"{root}/{path}" if rng.random() < 0.1 else path


def ask_git(root, paths, environment):
    """For each path: (file, line, rule) that decides, None without one, or "link" for a path behind a link."""
    words = ["git", "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin"]
    answers, left = [], list(paths)
    while left:
        done = subprocess.run(words, cwd=root, env=environment, input="\0".join(left).encode() + b"\0", capture_output=True)
        fields = done.stdout.decode().split("\0")[:-1]
        rows = list(zip(fields[0::4], fields[1::4], fields[2::4], strict=True))
        answers += [(file, int(line), rule) if file else None for file, line, rule in rows]
        left = left[len(rows) :]
        if left:  # git ends at such a path
            assert b"is beyond a symbolic link" in done.stderr, (left[0], done.stderr)
            answers.append("link")
            left = left[1:]
    return answers


def check_against_git(casrewind, root, seed, repositories, paths_in_each):
    rng = random.Random(seed)
    counts = {"ignored": 0, "not ignored": 0, "behind a link": 0, "a rule includes it": 0}
    environment = {**casrewind.environment, "LC_ALL": "C"}
    (root.parent / "everywhere").write_text("*.log\nnew\n")
    environment["HOME"] = str(casrewind.environment["HOME"])
    with open(os.path.join(environment["HOME"], ".gitconfig"), "w") as config:
        config.write(f"[core]\n excludesFile = {root.parent}/everywhere\n")
    for _ in range(repositories):
        make_repository(rng, root, environment)
        paths = [path for path in (some_path(rng, root) for _ in range(paths_in_each * 2))
                 if (os.path.normpath(os.path.join(root, path)) + "/").startswith(f"{root}/")][:paths_in_each]  # fmt: skip
        assert len(paths) == paths_in_each
        ours = casrewind.json("why", *paths)["paths"]
        for path, verdict, theirs in zip(paths, ours, ask_git(root, paths, environment), strict=True):
            if theirs == "link":
                assert not verdict["captured"] and verdict["reason"] in ("behind a link", "ignored"), (path, verdict)
                counts["behind a link"] += 1
                continue
            rule = verdict["rule"]
            if rule is not None:
                file = f"{root.parent}/everywhere" if rule["file"] == "core.excludesFile" else os.path.join(rule["directory"], rule["file"])
                rule = (file, rule["line"], rule["text"])
            ignored = theirs is not None and not theirs[2].startswith("!")
            assert rule == theirs and (verdict["reason"] == "ignored") == ignored, (path, verdict, theirs)
            assert verdict["reason"] in ("ignored", "captured", "missing"), (path, verdict)
            place = os.path.normpath(os.path.join(root, path))
            is_there = os.path.isdir(place) if path.rpartition("/")[2] in ("", ".", "..") else os.path.lexists(place)
            assert ignored or (verdict["reason"] == "captured") == is_there, (path, verdict)
            counts["ignored" if ignored else "not ignored" if theirs is None else "a rule includes it"] += 1
    print(counts)
    assert min(counts.values()) * 40 > repositories * paths_in_each, "the generator has become one-sided"


def test_why_says_of_each_path_what_git_says(casrewind, root):
    check_against_git(casrewind, root, 1, 3, 120)


@pytest.mark.long
def test_why_says_of_five_thousand_paths_what_git_says(casrewind, root):
    check_against_git(casrewind, root, 45, 25, 200)
