"""What the tests with the real client share."""

import pytest

from support.claude_client import ClaudeClient


def pytest_configure(config):
    config.addinivalue_line("markers", "xdist_group: tests that share one recorded session and so one worker")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """`start(moved=True)`: a real client with casrewind's hooks in a home of its own, stopped when the module is done."""
    made = []

    def new(**options):
        client = ClaudeClient(tmp_path_factory.mktemp("c"), **options)
        made.append(client)
        return client

    yield new
    for client in made:
        client.stop()
