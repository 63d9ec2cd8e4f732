"""What the tests of the benchmarks share: a place for whatever a benchmark makes for itself."""

import pytest


@pytest.fixture
def scratch(tmp_path):
    place = tmp_path / "scratch"
    place.mkdir()
    return place
