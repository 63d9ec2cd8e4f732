"""verify finds what is damaged, names whom it concerns, and changes nothing; the rest can still be restored."""

import os

from casrewind.store import packs
from support.picture import picture
from support.trees import plant


def pack_of(root, home):
    (store,) = (home / "data" / "stores").iterdir()
    (pack,) = (store / "packs").iterdir()
    return store, pack


def flip_body_of(pack, wanted):
    """Flip a byte inside the body of the record that holds `wanted` raw bytes of content."""
    data = bytearray(pack.read_bytes())
    for digest, place in packs.records_of_pack(os.path.dirname(pack), pack.name.removesuffix(".pack")):
        if place.raw == wanted:
            data[place.offset + place.length - 1] ^= 1
            pack.chmod(0o600)
            pack.write_bytes(data)
            return digest.hex()
    raise AssertionError("no such record")


def test_a_sound_store_is_called_sound(casrewind, root):
    plant(root, {"a": b"one", "big": os.urandom(1 << 20), "d/b": b"two"})
    casrewind("save", code=0)
    found = casrewind.json("verify")
    assert found["ok"] and found["problems"] == [] and found["checkpoints"] == 1
    assert found["blobs"] >= 5


def test_damage_is_named_and_the_rest_still_restores(casrewind, root, home):
    plant(root, {"bad.bin": os.urandom(777), "good.bin": os.urandom(778)})
    good = (root / "good.bin").read_bytes()
    casrewind("save", code=0)
    store, pack = pack_of(root, home)
    digest = flip_body_of(pack, 777)
    before = picture(store, skip={b"locks", b"index"})
    found = casrewind.json("verify", code=20)
    assert not found["ok"]
    assert [(problem["kind"], problem["id"]) for problem in found["problems"]] == [("blob", digest)]
    assert "bad.bin" in found["problems"][0]["detail"]
    assert picture(store, skip={b"locks", b"index"}) == before
    plant(root, {"bad.bin": b"x", "good.bin": b"y"})
    here = picture(root)
    casrewind("restore", "last", "--yes", code=20)
    assert picture(root) == here
    casrewind("restore", "last", "--yes", "--", "good.bin", code=0)
    assert (root / "good.bin").read_bytes() == good


def test_a_flip_in_an_old_record_of_the_ledger_is_found(casrewind, root, home):
    plant(root, {"a": b"one"})
    casrewind("save", code=0)
    plant(root, {"a": b"two"})
    casrewind("save", code=0)
    (store,) = (home / "data" / "stores").iterdir()
    ledger = store / "ledger"
    data = bytearray(ledger.read_bytes())
    data[60] ^= 4
    ledger.write_bytes(data)
    found = casrewind.json("verify", code=20)
    assert "ledger" in {problem["kind"] for problem in found["problems"]}
