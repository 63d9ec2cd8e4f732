"""The index of a store with a hundred thousand blobs is lost: what making it anew takes, and that nothing is lost by it."""

import os
import shutil
import statistics
import time

import pytest

BLOBS = 100_000


@pytest.mark.long
def test_an_index_of_a_hundred_thousand_blobs_is_made_anew(casrewind, root):
    for place in range(100):
        os.makedirs(root / f"d{place}")
        for number in range(BLOBS // 100):
            with open(root / f"d{place}/{number}", "wb") as file:
                file.write(b"%d %d\n" % (place, number) * (1 + number % 40))
    saved = casrewind.json("save")
    store = casrewind.json("status")["store"]
    before, shown = casrewind("list", "--json", code=0).out, casrewind("show", saved["checkpoint"], "--json", code=0).out
    took = {"list": [], "list that makes the index anew": []}
    for _ in range(3):
        for name, seconds in took.items():
            if name != "list":
                shutil.rmtree(os.path.join(store, "index"))
            began = time.monotonic()
            found = casrewind("list", "--json", code=0)
            seconds.append(time.monotonic() - began)
            assert found.out == before
    assert casrewind("show", saved["checkpoint"], "--json", code=0).out == shown
    verified = casrewind.json("verify")
    assert verified["ok"]
    assert verified["blobs"] >= BLOBS
    packs = os.listdir(os.path.join(store, "packs"))
    figures = ", ".join(f"{name} {statistics.median(seconds):.2f} s" for name, seconds in took.items())
    print(f"{verified['blobs']} blobs in {len(packs)} packs: {figures} (whole commands, medians of 3)")
