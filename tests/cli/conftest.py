"""Most tests of the command line call it in this process; `process` is the real command in a process of its own."""

import pytest

from support.command import Command
from support.inside import Inside


@pytest.fixture
def casrewind(root, home):
    """The command, called in this process."""
    return Inside(root, home)


@pytest.fixture
def process(root, home):
    """The command, in a process of its own."""
    return Command(root, home)
