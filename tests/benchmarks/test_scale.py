"""The simulation of a day runs, in a tiny size, and counts what an S3 server counts. No test looks at a time."""

import json

import pytest

from support.benchmark import TOP, marks, run

pytestmark = marks("scale")


@pytest.fixture
def scale(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP))
    from benchmarks import scale

    return scale


def test_every_figure_is_counted_or_multiplied_from_counts(scratch, tmp_path, scale):
    record = tmp_path / "s.json"
    code, out, _ = run("scale", "--files", 20, "--sandboxes", 1, "--pushes", 3, "--chains", 30, "--pulled", 10, "--hold", 0, "--json", record, scratch=scratch)
    assert code == 0 and list(scratch.iterdir()) == []
    told = json.loads(record.read_text())
    first = {"GET": 2, "LIST": 1, "PUT": 4}  # the four requests of a first push, the hint of the day, the machine's name, and a piece
    assert [cost["requests"] for cost in told["sandbox"]] == [first, {"PUT": 1}] * 3
    asked = {cost["step"]: cost["requests"] for cost in (*told["reading"], *told["listed"])}
    assert asked["pull of one checkpoint"] == {"LIST": 1, "GET": 1}
    up = {cost["step"]: cost["up"] for cost in told["reading"]}
    hold = asked["first push of the clone of the newest"]  # it opens each piece of its base
    assert (hold["LIST"], hold["PUT"]) == (3, 5)
    assert up["first push of the clone of the newest"] < told["sandbox"][0]["up"] / 2, "a clone sends nothing of its base"
    assert asked["push of one checkpoint"] == {"PUT": 3}, "the hint of its day, its name and a piece: a push needs no list, however many chains there are"
    assert asked["pull, nothing new"] == {"LIST": 1}
    assert asked["pull, one chain is new"] == {"LIST": 1, "GET": 1}
    clone = asked["clone of the newest of all"]
    assert clone["LIST"] == 1 and "PUT" not in clone and clone["GET"] <= 4, "the list of all; a clone puts nothing"
    assert [asked[f"pull, {number} chains are new"] for number in (5, 10)] == [{"LIST": 1, "GET": number + 2} for number in (5, 10)]
    assert {cost["step"]: cost["requests"] for cost in told["long"]}["3 pushes, without roll-ups"] == first | {"PUT": 6}
    rows = {row[0]: row[1:] for row in told["day"]}
    assert rows["pushes, each turn"][:2] == [scale.CHECKPOINTS + 6 * scale.SANDBOXES, pytest.approx(7.08)], "5 $ for a million PUT"
    assert rows["pushes, at the end"][0] == (2 + 6) * scale.SANDBOXES
    for row in told["day"]:
        assert f"| {row[0]} |" in out
    assert len(told["breaks"]) == 6 and "one person pulls 100,000 chains" in out


@pytest.mark.parametrize("number", [0, 1, 1000, 1001, 2500])
def test_a_list_has_pages_of_a_thousand_names(scale, number):
    import obstore

    from casrewind.remote.objects import Objects

    url = f"memory://pages-{number}"
    objects = Objects(url)
    for at in range(number):
        obstore.put(objects._place._store, f"a/{at:05}", b"")
    with scale.CountingBucket() as bucket:
        assert len(objects.list()) == number
    assert bucket.counts().requests == objects.requests == {"LIST": max(1, -(-number // 1000))}


def test_the_bucket_in_memory_is_asked_what_an_s3_server_is_asked(s3, scale, tmp_path, monkeypatch):
    from benchmarks import trees

    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    trees.generate(tmp_path / "tree", 20)
    asked = []
    with scale.CountingBucket() as memory:
        for number, (bucket, url) in enumerate(((memory, "memory://scale-test"), (s3, s3.bucket()))):
            sample = scale.Sample(tmp_path / f"{number}", tmp_path / "tree", bucket, url)
            made, first, later = sample.sandbox(url, 1, 3)
            laptop = sample.reader(url)
            clone = sample.measured("clone", lambda made=made, place=sample.place: made.clone_to(place / "clone"))
            asked.append([first, *later, clone, *(sample.measured("pull", laptop.pull) for _ in range(2))])
    for here, there in zip(*asked, strict=True):
        assert here.requests == there.requests, (here, there)
        assert here.up == pytest.approx(there.up, rel=0.1) and (there.down - here.down) < 1000 * (1 + there.number("LIST", "GET")), "a LIST has a body, too"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--files", "9"], "--files: 9 is too few, 20 or more"), (["--sandboxes", "0"], "--sandboxes: 0 is too few, 1 or more"),
        (["/nowhere"], "/nowhere: no such directory"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_clear_line(arguments, said, capsys, scale):
    with pytest.raises(SystemExit) as ended:
        scale.options(arguments)
    out, err = capsys.readouterr()
    assert ended.value.code == 64 and out == "" and err.count("\n") == 1 and said in err
