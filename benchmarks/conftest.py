"""A generated tree of a given size, and a workspace over it. Size: --files N (default 2000)."""

import pytest

from casrewind.workspace import Settings, Workspace

from . import trees


def pytest_addoption(parser):
    parser.addoption("--files", type=int, default=2000, help="files in the generated tree, ten or more")


@pytest.fixture
def tree(tmp_path, request):
    root = tmp_path / "project"
    trees.generate(root, request.config.getoption("--files"))
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
