"""Directories that others own or may write to: nothing is put there that they could exchange, and `status` says so."""

import os

import pytest

from casrewind import locations
from support.command import CONFIG_FILE
from support.fake_client import Client
from support.trees import plant

OTHER = 1501
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory to somebody else")


@pytest.fixture
def data(casrewind, root):
    plant(root, {"a": b"1"})
    place = casrewind.environment["CASREWIND_HOME"]
    os.makedirs(place, 0o700)
    return place


def give(place, how):
    if how == "theirs":
        os.chown(place, OTHER, OTHER)
        os.chmod(place, 0o755)
    else:
        os.chmod(place, how)


def warnings(casrewind):
    return [reason for reason in casrewind.json("status")["reasons"] if "others could" in reason]


@pytest.mark.parametrize(("which", "how"), [("", "theirs"), ("stores", 0o777), ("../..", 0o773)])
def test_status_says_where_others_could_remove_the_store(casrewind, data, how, which):
    casrewind("save", code=0)
    assert warnings(casrewind) == []
    place = os.path.normpath(os.path.join(data, which))
    give(place, how)
    (warning,) = warnings(casrewind)
    assert f"below {place}, and " in warning and "--store DIR" in warning
    assert casrewind.json("save")["created"] is False


def test_a_directory_with_the_sticky_bit_or_for_readers_only_is_no_reason(casrewind, data):
    casrewind("save", code=0)
    for mode in (0o1777, 0o755, 0o750):
        os.chmod(data, mode)
        assert warnings(casrewind) == []


@pytest.mark.parametrize("how", ["theirs", 0o777])
def test_no_log_in_a_data_directory_of_others(casrewind, root, data, how):
    client = Client(casrewind, root)
    give(data, how)
    client.send(client.payload("UserPromptSubmit.prompt"))
    client.wait_for(1)
    plant(casrewind.home, {CONFIG_FILE: b"nonsense"})
    client.send(client.payload("Stop.plain"))
    assert os.listdir(data) == ["stores"]


def test_a_directory_of_nobody_is_one_of_others_outside_of_a_user_namespace(tmp_path):
    with open("/proc/self/uid_map") as file:
        everybody = file.read().split() == ["0", "0", "4294967295"]
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, 65534, -1)
    assert locations.ownership_problem(str(place)) == ("it belongs to user 65534" if everybody else "")


def test_the_group_that_only_this_user_has_is_not_others(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o775)
    assert locations.ownership_problem(str(place)) == ""
    os.chown(place, -1, OTHER)
    assert locations.ownership_problem(str(place)) == "others may write to it"
