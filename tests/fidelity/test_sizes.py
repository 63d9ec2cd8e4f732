"""Many, deep, long and large: sizes at which simple ways of doing it break."""

import hashlib
import os
import random
import shutil
import subprocess

import pytest

from support.picture import differences, picture
from support.trees import plant

MB = 1 << 20


@pytest.mark.parametrize("count", [3_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_directory_of_thousands_of_entries(workspace, root, count):
    (root / "many").mkdir()
    for number in range(count):
        with open(root / "many" / f"file {number:05}", "w") as file:
            file.write(f"content {number}")
    before = picture(root, mtimes=True)
    saved = workspace.save()
    assert saved.checkpoint.files == count
    for number in range(0, count, 3):
        os.unlink(root / "many" / f"file {number:05}")
    for number in range(1, count, 300):
        (root / "many" / f"file {number:05}").write_text("edited")
    plant(root, {f"many/new {number}": b"n" for number in range(500)})
    report = workspace.restore(saved.checkpoint)
    assert not report.kept
    assert len(report.actions) == len(set(range(0, count, 3)) | set(range(1, count, 300))) + 500
    assert differences(before, picture(root, mtimes=True)) == {}


def descend(root, levels, name):
    """Make and enter directories one by one; a descriptor of the deepest. No path would be short enough."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    return here


@pytest.mark.turns(2)
@pytest.mark.parametrize(("levels", "name"), [(300, "d"), (150, "n" * 255)], ids=["300 levels", "38,400 bytes of path"])
def test_three_hundred_levels_and_no_path_short_enough(workspace, root, levels, name):
    here = descend(root, levels, name)
    try:
        with open("bottom", "w", opener=lambda path, flags: os.open(path, flags, dir_fd=here)) as file:
            file.write("deep")
    finally:
        os.close(here)
    before = picture(root, mtimes=True)
    assert len(before) == levels + 1
    point = workspace.save().checkpoint
    assert subprocess.run(["rm", "-rf", str(root / name)], check=False).returncode == 0
    plant(root, {"beside": b"b"})
    assert not workspace.restore(point).kept
    assert differences(before, picture(root, mtimes=True)) == {}
    workspace.undo()
    assert sorted(os.listdir(root)) == ["beside"]


@pytest.mark.long
def test_more_levels_than_a_restore_accepts_are_named_and_not_lost(workspace, root):
    os.close(descend(root, 2100, "d"))
    plant(root, {"a": b"1"})
    saved = workspace.save()
    (skip,) = saved.skipped
    assert skip.reason == "too many levels deep"
    plant(root, {"a": b"2"})
    before = picture(root)
    assert not workspace.restore(saved.checkpoint).incomplete
    assert differences(before, picture(root)).keys() == {b"a"}
    subprocess.run(["rm", "-rf", str(root / "d")], check=True)


def test_long_names_and_long_paths(workspace, root):
    long = b"n" * 255
    tree = {long: b"1", b"d/" + long: b"2", b"/".join([b"e" * 250] * 14) + b"/f": b"3"}
    plant(root, tree)
    before = picture(root, mtimes=True)
    point = workspace.save().checkpoint
    plant(root, dict.fromkeys(tree, b"edited"))
    assert not workspace.restore(point).kept
    assert differences(before, picture(root, mtimes=True)) == {}


def store_bytes(workspace):
    packs = os.path.join(workspace.store_path, "packs")
    return sum(os.stat(os.path.join(packs, name)).st_size for name in os.listdir(packs))


def sha(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.turns(2)
@pytest.mark.parametrize("size", [40, pytest.param(300, marks=pytest.mark.long)])
def test_a_megabyte_inserted_into_many_costs_about_one(workspace, root, size):
    """`size` MB that do not repeat; 1 MB comes into the middle: less than 3 MB more in the store, both come back."""
    if shutil.disk_usage(root).free < 10 * size * MB:
        pytest.skip(f"needs {10 * size} MB of free space")
    noise = random.Random(20240501)
    head, tail, inserted = noise.randbytes(size // 2 * MB), noise.randbytes(size // 2 * MB), noise.randbytes(MB)
    (root / "huge").write_bytes(head + tail)
    first_sha, first = sha(root / "huge"), workspace.save().checkpoint
    stored = store_bytes(workspace)
    assert stored < (size + 3) * MB
    (root / "huge").write_bytes(head + inserted + tail)
    second_sha, second = sha(root / "huge"), workspace.save().checkpoint
    grown = store_bytes(workspace) - stored
    assert MB < grown < 3 * MB, grown
    assert not workspace.restore(first).kept
    assert sha(root / "huge") == first_sha
    assert not workspace.restore(second).kept
    assert sha(root / "huge") == second_sha


@pytest.mark.turns(3)
def test_a_sparse_file_stays_sparse(workspace, root):
    with open(root / "sparse", "wb") as file:
        file.truncate(200 * MB)
        file.seek(100 * MB + 17)
        file.write(b"in the middle")
    with open(root / "hole", "wb") as file:
        file.truncate(70 * MB)
    before = picture(root, mtimes=True)
    point = workspace.save().checkpoint
    assert store_bytes(workspace) < MB
    for name in ("sparse", "hole"):
        os.unlink(root / name)
    assert not workspace.restore(point).kept
    assert differences(before, picture(root, mtimes=True)) == {}
    for name in ("sparse", "hole"):
        assert os.stat(root / name).st_blocks * 512 < 2 * MB


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, MB - 1, MB, MB + 1, 3 * MB])
def test_sizes_around_the_borders(workspace, root, size):
    noise = random.Random(size)
    plant(root, {"f": noise.randbytes(size), "zeros": b"\0" * size})
    before = picture(root, mtimes=True)
    point = workspace.save().checkpoint
    plant(root, {"f": noise.randbytes(size + 1), "zeros": b"\0" * (size + 1)})
    broken = picture(root)
    assert not workspace.restore(point).kept
    assert differences(before, picture(root, mtimes=True)) == {}
    workspace.undo()
    assert differences(broken, picture(root)) == {}


def test_a_file_over_the_limit_is_named_and_never_taken_for_absent(workspace, root, settings):
    from casrewind.workspace import Workspace

    with Workspace(str(root), settings._replace(max_file_size=1000), create=True) as small:
        plant(root, {"large": b"x" * 1001, "fits": b"x" * 1000, "grows": b"x"})
        saved = small.save()
        assert [(skip.path, skip.reason) for skip in saved.skipped] == [(b"large", "too large")]
        plant(root, {"fits": b"y", "grows": b"x" * 2000, "new and large": b"z" * 5000})
        before = {name: (root / name).read_bytes() for name in ("large", "new and large")}
        report = small.restore(saved.checkpoint)
        assert {item.path for item in report.kept} <= {b"large", b"new and large"}
        assert {name: (root / name).read_bytes() for name in before} == before
        assert (root / "fits").read_bytes() == b"x" * 1000
        assert (root / "grows").read_bytes() == b"x"
        assert not small.undo().kept
        assert (root / "grows").read_bytes() == b"x" * 2000
