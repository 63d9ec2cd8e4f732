"""The objects of a remote: the same in a bucket, in a directory and in memory."""

import itertools
import os
import subprocess
import sys
import threading
import time
import urllib.parse

import pytest

from casrewind import errors
from casrewind.remote.objects import ObjectGone, Objects

_numbers = itertools.count()


@pytest.fixture(params=["s3", "file", "memory"])
def url(request, s3, tmp_path, monkeypatch):
    """A place without objects."""
    if request.param == "s3":
        for name, value in s3.variables.items():
            monkeypatch.setenv(name, value)
        return s3.bucket("team shop/é")
    return f"file://{urllib.parse.quote(str(tmp_path))}/a%20shop" if request.param == "file" else f"memory://shop-{next(_numbers)}"


@pytest.fixture
def objects(url):
    opened = Objects(url)
    assert opened.put_new("casrewind", b"head")
    return opened


def names(objects, *arguments, **named):
    return [info.name for info in objects.list(*arguments, **named)]


def test_what_was_put_is_read_by_whoever_opens_the_same_url(objects, url):
    data = os.urandom(300_000)
    assert objects.put_new("chain/0000000001", data)
    assert Objects(url).get("chain/0000000001") == data == objects.get("chain/0000000001")
    assert objects.put_new("chain/empty", b"") and objects.get("chain/empty") == b""


def test_an_object_is_never_replaced(objects, url):
    assert objects.put_new("chain/1", b"first")
    assert not objects.put_new("chain/1", b"second")
    assert not Objects(url).put_new("chain/1", b"third, and longer")
    assert objects.get("chain/1") == b"first"


def test_one_of_many_writers_of_a_name_wins(objects, url):
    won = []

    def write(number):
        mine = Objects(url)
        for name in range(5):
            if mine.put_new(f"chain/{name}", b"%d" % number * 1000):
                won.append((name, number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(name for name, _ in won) == list(range(5))
    assert all(objects.get(f"chain/{name}") == b"%d" % number * 1000 for name, number in won)


def test_ranges(objects):
    objects.put_new("chain/1", bytes(range(100)))
    assert objects.get("chain/1", 10, 20) == bytes(range(10, 20))
    assert objects.get("chain/1", 90) == bytes(range(90, 100))
    assert objects.get("chain/1", 0, 1) == b"\0"
    assert objects.get("chain/1", 50, 50) == objects.get("chain/1", 60, 50) == b""


def test_a_range_beyond_the_end_gives_what_there_is(objects):
    objects.put_new("chain/1", b"0123456789")
    assert objects.get("chain/1", 8, 100) == b"89"
    assert objects.get("chain/1", 10, 12) == objects.get("chain/1", 500, 600) == objects.get("chain/1", 10) == b""


@pytest.mark.parametrize("more", [(), (3,), (3, 9)])
def test_what_is_not_there_is_gone(objects, more):
    for name in ("nothing", "chain/nothing"):
        with pytest.raises(ObjectGone):
            objects.get(name, *more)


def test_the_list_is_ordered_and_tells_sizes_and_times(objects):
    for name, size in (("b/2", 20), ("a/1", 1), ("b/10", 10), ("ab/1", 7), ("a/1.x", 3)):
        objects.put_new(name, b"x" * size)
    found = objects.list()
    assert [(info.name, info.size) for info in found] == [("a/1", 1), ("a/1.x", 3), ("ab/1", 7), ("b/10", 10), ("b/2", 20), ("casrewind", 4)]
    assert all(abs(info.modified_ns / 1e9 - time.time()) < 3600 for info in found)


def test_the_list_of_a_part(objects):
    for name in ("a/1", "a/2", "a/3", "ab/1", "b/1"):
        objects.put_new(name, b"x")
    assert names(objects, "a/") == names(objects, "a") == ["a/1", "a/2", "a/3"]
    assert names(objects, "a/", after="a/1") == names(objects, "a", after="a/11") == ["a/2", "a/3"]
    assert names(objects, after="a/3") == ["ab/1", "b/1", "casrewind"]
    assert names(objects, after="b") == ["b/1", "casrewind"] and names(objects, after="z") == []
    assert names(objects, "nothing") == []


def test_the_first_of_a_list_and_then_the_others(objects):
    wanted = [f"{letter}/{number}" for letter in "abc" for number in range(4)]
    for name in wanted[::-1]:
        objects.put_new(name, b"x")
    found = names(objects, "", "", 5)
    assert found in (wanted[:5], [*wanted, "casrewind"]), "all, where the files of a directory come in another order"
    assert [*found, *names(objects, "", found[-1], 100)] == [*wanted, "casrewind"]


@pytest.mark.long  # a thousand objects
def test_a_list_of_more_than_a_page(s3, monkeypatch):
    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    url = s3.bucket()
    wanted = [f"chain/{number:010}" for number in range(1, 1003)]
    for name in wanted:
        s3.put(url, name, b"")
    objects = Objects(url)
    s3.reset()
    assert names(objects, "chain") == names(objects) == wanted
    assert s3.counts().requests == objects.requests == {"LIST": 4}
    assert names(objects, "chain", after=wanted[999]) == wanted[1000:]
    objects.delete(wanted)
    assert s3.counts().requests == objects.requests == {"LIST": 5, "DELETE": 2}
    assert names(objects) == []


def test_delete(objects):
    for name in ("a/1", "a/2", "b/1"):
        objects.put_new(name, b"x")
    objects.delete(["a/1", "a/nothing", "nothing", "b/1"])
    assert names(objects) == ["a/2", "casrewind"]
    objects.delete(["a/1"])
    objects.delete([])
    assert objects.put_new("a/1", b"again") and objects.get("a/1") == b"again"


def test_what_is_replaced_has_the_new_bytes_and_keeps_its_name(objects, url):
    objects.put_new("a/1", b"x" * 1000)
    objects.replace("a/1", b"new")
    assert Objects(url).get("a/1") == b"new" and [(info.name, info.size) for info in objects.list("a")] == [("a/1", 3)]
    assert not objects.put_new("a/1", b"again") and objects.requests["PUT"] == 4


def test_requests_and_bytes_are_counted(objects):
    objects.requests.clear()
    objects.sent_bytes = objects.received_bytes = 0
    objects.put_new("a/1", b"x" * 1000)
    objects.put_new("a/1", b"y" * 10)
    objects.get("a/1", 0, 100)
    objects.list()
    objects.delete(["a/1"])
    assert objects.requests == {"PUT": 2, "GET": 1, "LIST": 1, "DELETE": 1}
    assert (objects.sent_bytes, objects.received_bytes) == (1010, 100)


def test_the_server_counts_the_same(s3, monkeypatch):
    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    objects = Objects(s3.bucket())
    s3.reset()
    objects.put_new("a/1", b"x" * 1000)
    objects.get("a/1")
    objects.get("a/1", 0, 100)
    objects.list()
    objects.delete(["a/1"])
    counts = s3.counts()
    assert counts.requests == objects.requests == {"PUT": 1, "GET": 2, "LIST": 1, "DELETE": 1}
    assert counts.received >= 1000 and counts.sent >= 1100


def test_names_of_others_in_a_bucket_do_not_stop_a_list(s3, monkeypatch):
    """A console makes "directories", and anybody with the right to write makes any name."""
    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    url = s3.bucket("shop")
    objects = Objects(url)
    objects.put_new("a/1", b"x")
    for key in ("", "a/", "a/%23", "b%5c", "%c3%a9"):
        s3.put(url, key, b"")
    assert "a/1" in names(objects) and objects.get("a/1") == b"x"


@pytest.mark.parametrize("key, shown", [("a//2", "shop/a//2"), ("a/%2e%2e/3", "shop/a/../3"), ("%00", r"shop/\x00")])
def test_a_name_that_the_library_refuses_is_said(s3, monkeypatch, key, shown):
    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    url = s3.bucket("shop")
    objects = Objects(url)
    objects.put_new("a/1", b"x")
    s3.put(url, key, b"")
    with pytest.raises(errors.RemoteError) as found:
        objects.list()
    assert str(found.value) == f"an object in {url} has the name {shown}, which is not one of casrewind's; delete it"
    assert objects.get("a/1") == b"x"


def test_options_say_where_the_bucket_is(s3, monkeypatch):
    for name in s3.variables:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    url = s3.bucket()
    objects = Objects(url, {"endpoint": s3.endpoint, "region": "eu-central-1"})
    assert objects.put_new("a", b"x") and Objects(url, {"endpoint": s3.endpoint}).get("a") == b"x"


@pytest.mark.parametrize(
    "url, options, words",
    [
        ("ftp://host/shop", {}, "ftp://host/shop is not a place for a remote; write s3://"),
        ("shop", {}, "shop is not a place for a remote"),
        ("s3://", {}, "s3:// names no bucket"),
        ("s3://[", {}, "not a place for a remote"),
        ("s3://team/..", {}, "not a place for a remote"),
        ("s3://team/a//b", {}, "not a place for a remote"),
        ("s3://te am/shop", {}, "te am is not the name of a bucket"),
        ("s3://team/shop", {"region": "x y"}, "x y is not the name of a region; it looks like eu-central-1"),
        ("s3://team/shop", {"endpoint": "host:9000"}, "the endpoint host:9000 is not a URL; write https://HOST or http://HOST:PORT"),
        ("s3://team/shop", {"endpoint": "nonsense"}, "the endpoint nonsense is not a URL"),
        ("s3://team/shop?x=1", {}, "not a place for a remote"),
        ("s3://key:secret@team/shop", {}, "a URL with a password in it would be kept in clear"),
        ("file://host/shop", {}, "file://host/shop names no directory of this machine"),
        ("s3://team/shop", {"secret": "x"}, "s3:// has no option secret; it has endpoint, profile, region"),
        ("file:///shop", {"region": "x"}, "file:// has no option region; it has none"),
    ],
)
def test_a_url_that_means_nothing_is_a_usage_error(url, options, words):
    with pytest.raises(errors.UsageError) as found:
        Objects(url, options)
    assert words in str(found.value) and "secret@" not in str(found.value)


def test_objects_of_a_directory_are_files_that_its_readers_may_read(tmp_path):
    place = tmp_path / "shared"
    place.mkdir(mode=0o750)
    place.chmod(0o750)
    objects = Objects(f"file://{place}")
    objects.put_new("casrewind", b"head")
    objects.put_new("chain/1", b"piece")
    assert (place / "casrewind").stat().st_mode & 0o777 == 0o640
    assert (place / "chain/1").read_bytes() == b"piece" and sorted(os.listdir(place / "chain")) == ["1"]
    mode = (place / "chain/1").stat().st_mode
    objects.replace("chain/1", b"new")
    assert (place / "chain/1").read_bytes() == b"new" and (place / "chain/1").stat().st_mode == mode
    assert os.listdir(place / "chain") == ["1"]
    objects.delete(["chain/1"])
    assert os.listdir(place) == ["casrewind"]


def test_a_draft_of_a_killed_push_is_no_object_and_goes(tmp_path):
    objects = Objects(f"file://{tmp_path}")
    objects.put_new("chain/1", b"piece")
    (tmp_path / "chain/casrewind-draft-0123").write_bytes(b"half")
    assert names(objects) == ["chain/1"]
    Objects(f"file://{tmp_path}").put_new("chain/2", b"piece")
    assert sorted(os.listdir(tmp_path / "chain")) == ["1", "2"]


def test_only_regular_files_of_a_directory_are_objects(tmp_path):
    objects = Objects(f"file://{tmp_path}")
    objects.put_new("chain/1", b"piece")
    os.mkfifo(tmp_path / "chain/2")
    os.symlink("/etc", tmp_path / "chain/3")
    os.symlink("/etc/passwd", tmp_path / "chain/4")
    assert names(objects) == ["chain/1"]
    for name in ("chain/2", "chain/4", "chain/../chain/1", "chain"):
        with pytest.raises((errors.RemoteError, ObjectGone)):
            objects.get(name)


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="looks at system calls")
def test_an_object_of_a_directory_is_durable_before_it_has_its_name(tmp_path, monkeypatch):
    """The file is synced before the rename, and both directories after it."""
    from casrewind import fsio
    from casrewind.worktree import safe_rename

    seen = []
    sync, rename = fsio.sync_fd, safe_rename.rename_without_replacing
    monkeypatch.setattr(fsio, "sync_fd", lambda fd, **how: (seen.append(("sync", os.readlink(f"/proc/self/fd/{fd}"))), sync(fd, **how))[1])
    monkeypatch.setattr(safe_rename, "rename_without_replacing", lambda *a: (seen.append(("name", os.fsdecode(a[2]))), rename(*a))[1])
    objects = Objects(f"file://{tmp_path}")
    objects.put_new("chain/1", b"piece")
    kinds = [(kind, "draft" if "draft" in what else what.rpartition("/")[2]) for kind, what in seen]
    assert kinds == [("sync", tmp_path.name), ("sync", "draft"), ("name", "1"), ("sync", "chain")]


def test_a_process_may_end_right_after_a_request(s3):
    """Threads of the library that still hold objects of Python would abort it."""
    code = (
        "import os, sys\nfrom casrewind.remote.objects import Objects\nobjects = Objects(sys.argv[1])\nobjects.put_new('a', b'x')\nobjects.get('a')\n"
        "objects.list() if sys.argv[2] == 'list' else objects.delete(['a']) if sys.argv[2] == 'delete' else objects.put_new(sys.argv[2], b'x')"
    )
    environment = {**os.environ, **s3.variables, "PYTHONPATH": os.pathsep.join(sys.path)}
    for number in range(12):
        word = ("list", "delete", "b")[number % 3]
        done = subprocess.run([sys.executable, "-c", code, s3.bucket(), word], env=environment, capture_output=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, b""), word
