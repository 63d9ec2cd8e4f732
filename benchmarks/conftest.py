"""A generated tree of a given size, and a workspace over it. Sizes: --files N (default 2000), --megabytes N (default 64)."""

import pytest

from casrewind.workspace import Settings, Workspace

from . import trees


def pytest_addoption(parser):
    parser.addoption("--files", type=int, default=2000, help="files in the generated tree, ten or more")
    parser.addoption("--megabytes", type=int, default=64, help="random bytes that are hashed, cut and compressed, in MiB")


def pytest_benchmark_update_json(config, output_json):
    """Note the size, which the record of pytest-benchmark lacks."""
    output_json["files"] = config.getoption("--files")


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
