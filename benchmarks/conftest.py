"""A generated tree of a given size, and a workspace over it. Size: --files N (default 2000)."""

import random

import pytest

from casrewind.workspace import Settings, Workspace


def pytest_addoption(parser):
    parser.addoption("--files", type=int, default=2000, help="files in the generated tree")


@pytest.fixture
def tree(tmp_path, request):
    """A project of N files of 0-16 KiB of text, twenty to a directory."""
    root = tmp_path / "project"
    words = [b"def ", b"return ", b"self.", b"value", b" = ", b"\n", b"import ", b"0", b"(", b")"]
    for number in range(request.config.getoption("--files")):
        random_ = random.Random(number)
        place = root / f"d{number // 400}" / f"d{number // 20 % 20}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"f{number}.py").write_bytes(b"".join(random_.choices(words, k=random_.randrange(3000))))
    return root


@pytest.fixture
def settings(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return Settings(home=str(home), data=str(home / "data"), environ={"HOME": str(home)})


@pytest.fixture
def workspace(tree, settings):
    with Workspace(str(tree), settings, create=True) as opened:
        yield opened
