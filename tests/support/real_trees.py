"""Real trees to work on, fetched once per machine by the ordinary clients (pip, npm, apt-get) and unpacked afresh each time.

They are kept in `CASREWIND_TEST_CACHE`, by default a directory of /var/tmp, which is there for what is to last. Where a client cannot get
them the tests are skipped, except where CI=true: there that is a failure.
"""

import fcntl
import functools
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

DJANGO = "Django-5.2.tar.gz"
LOCK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "django.lock")  # its version and digest
KERNELS = ("linux-source-6.1", "linux-source-6.8.0", "linux-source-6.12")  # Debian 12, Ubuntu 24.04, Debian 13
LEFT_OUT = ("*/drivers/gpu", "*/sound", "*/drivers/media", "*/drivers/staging")  # 400 MB: a fifth of the files, half of the bytes


_LASTING = "/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir()
_DEFAULT = os.path.join(_LASTING, f"casrewind-test-inputs-{os.geteuid()}")  # another user's cannot be written to
_PLACE = os.environ.get("CASREWIND_TEST_CACHE") or _DEFAULT  # no test sees the variable


def place():
    os.makedirs(_PLACE, exist_ok=True)
    return _PLACE


def roomy():
    """A directory in memory when that has room for two such trees and stores: these tests move gigabytes."""
    shm = "/dev/shm"
    if os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 4 << 30:
        return shm
    return None


def once(name, make):
    """The path of a file in the cache. `make(directory)` gives its path in an empty directory beside it."""
    wanted = os.path.join(place(), name)
    with open(os.path.join(place(), "lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers want the same input
        if not os.path.exists(wanted):
            draft = tempfile.mkdtemp(prefix="fetching-", dir=place())
            try:
                os.rename(make(draft), wanted)
            except (OSError, subprocess.SubprocessError) as error:
                why = f"{name} is not to be had here: {error} {getattr(error, 'stderr', None) or ''}"
                (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    return wanted


def run(*command, cwd):
    environment = {**os.environ, "HOME": cwd, "LANG": "C.UTF-8"}
    return subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True, text=True, timeout=280)


def fetch_django(directory):
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--disable-pip-version-check", "--no-deps",
        "--no-binary", "django", "--require-hashes", "-r", LOCK, cwd=directory)  # fmt: skip
    (found,) = glob.glob(os.path.join(directory, "[Dd]jango-5.2.tar.gz"))
    return found


def fetch_kernel(directory):
    for name in KERNELS:
        try:
            run("apt-get", "download", name, cwd=directory)
            break
        except subprocess.CalledProcessError:
            if name == KERNELS[-1]:
                raise
    (package,) = glob.glob(os.path.join(directory, "*.deb"))
    run("dpkg-deb", "-x", package, os.path.join(directory, "x"), cwd=directory)
    (packed,) = glob.glob(os.path.join(directory, "x", "usr", "src", "**", "linux-source-*.tar.*"), recursive=True)
    run("sh", "-c", f"xz -dc < '{packed}' > plain.tar || bzip2 -dc < '{packed}' > plain.tar", cwd=directory)
    return os.path.join(directory, "plain.tar")


def unpack(archive, directory):
    """Unpack an archive with tar: the filters of Python's tarfile came with 3.11.4 only."""
    run("tar", "--no-same-owner", "-xf", archive, cwd=directory)


def django(directory):
    """Unpack the source distribution of Django 5.2 (6,918 files); its root."""
    unpack(once(DJANGO, fetch_django), directory)
    return os.path.join(directory, os.listdir(directory)[0])


def kernel(directory):
    """Unpack a Linux source (over 60,000 files); its root. Its own .gitignore ignores every dot file: not here."""
    archive = once("linux-source.tar", fetch_kernel)
    run("tar", "-xf", archive, "--no-same-owner", *(f"--exclude={name}" for name in LEFT_OUT), cwd=str(directory))
    root = os.path.join(directory, os.listdir(directory)[0])
    rules = os.path.join(root, ".gitignore")
    if os.path.exists(rules):
        with open(rules, "rb") as file:
            lines = file.read().split(b"\n")
        with open(rules, "wb") as file:
            file.write(b"\n".join(line for line in lines if line != b"/*"))
    return root


FROM_PYPI = ("attrs-26.1.0", "black-26.10.1", "httpx-0.28.1", "jsonschema-4.26.0", "mkdocs-1.6.1", "pytest-9.2.0", "urllib3-2.8.0", "Django-5.2")
FROM_NPM = ("express-5.3.0", "react-19.3.1", "eslint-10.15.0", "svelte-5.57.3", "vue-3.5.20")
FROM_DEBIAN = ("htop", "libzstd", "lz4", "libyaml", "tmux", "cmark", "jansson")  # of the system's own release
REPOSITORIES = [*(f"pypi:{name}" for name in FROM_PYPI), *(f"npm:{name}" for name in FROM_NPM), *(f"debian:{name}" for name in FROM_DEBIAN)]


def fetch_from_pypi(name, directory):
    project, _, version = name.rpartition("-")
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--disable-pip-version-check", "--no-deps",
        "--no-binary", project, f"{project}=={version}", cwd=directory)  # fmt: skip
    (found,) = glob.glob(os.path.join(directory, f"{project}-*.tar.gz"))
    return found


def fetch_from_npm(name, directory):
    project, _, version = name.rpartition("-")
    run("npm", "pack", "--silent", f"{project}@{version}", cwd=directory)
    (found,) = glob.glob(os.path.join(directory, "*.tgz"))
    return found


def fetch_from_debian(name, directory):
    """The system's own sources of packages, asked for source packages; nothing of the system's is changed."""
    os.makedirs(os.path.join(directory, "lists", "partial"))
    os.makedirs(os.path.join(directory, "cache", "archives", "partial"))
    for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*.list"), *glob.glob("/etc/apt/sources.list.d/*.sources")]:
        if os.path.exists(path):
            with open(path) as file:
                text = re.sub(r"^(Types: *deb|deb)(?=\s)(?!-src)", r"\1-src", file.read(), flags=re.MULTILINE)
            with open(os.path.join(directory, os.path.basename(path)), "w") as file:
                file.write(text)
    places = {"Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": directory, "Dir::State::lists": f"{directory}/lists",
              "Dir::Cache": f"{directory}/cache"}  # fmt: skip
    options = [word for key, value in places.items() for word in ("-o", f"{key}={value}")]
    run("apt-get", *options, "update", cwd=directory)
    run("apt-get", *options, "source", "--download-only", name, cwd=directory)
    (source,) = (path for path in glob.glob(os.path.join(directory, "*.orig.tar.*")) if not path.endswith(".asc"))
    os.mkdir(os.path.join(directory, "x"))
    unpack(source, os.path.join(directory, "x"))
    (root,) = glob.glob(os.path.join(directory, "x", "*"))
    for more in glob.glob(os.path.join(directory, "*.debian.tar.*")):
        unpack(more, root)
    run("tar", "-cf", os.path.join(directory, "source.tar"), "-C", os.path.join(directory, "x"), os.path.basename(root), cwd=directory)
    return os.path.join(directory, "source.tar")


def repository(name, directory):
    """Unpack one of `REPOSITORIES`; its root."""
    where, _, package = name.partition(":")
    fetch = {"pypi": fetch_from_pypi, "npm": fetch_from_npm, "debian": fetch_from_debian}[where]
    archive = once(DJANGO, fetch_django) if package == "Django-5.2" else once(f"{where}-{package}.tar", functools.partial(fetch, package))
    unpack(archive, directory)
    return os.path.join(directory, os.listdir(directory)[0])
