"""casrewind attest and verify --proof, as commands."""

import json

import pytest

from support.trees import plant


@pytest.fixture
def files(casrewind, root, tmp_path):
    """A proof of two saves with its files, the public key, and the anchor that was printed."""
    for number in range(2):
        plant(root, {"a": b"%d" % number, "d/b": b"b"})
        casrewind("save", code=0)
    made = casrewind("attest", "--files", code=0)
    (tmp_path / "proof.json").write_text(made.out)
    (tmp_path / "key.pub").write_text(casrewind("attest", "--key", code=0).out)
    return tmp_path, made.err.split()[-1]


def verify(casrewind, files, *words, code=0):
    return casrewind("verify", "--proof", files[0] / "proof.json", "--public-key", files[0] / "key.pub", *words, code=code)


def test_a_proof_is_checked_where_no_store_is(casrewind, files, tmp_path):
    (tmp_path / "empty").mkdir()
    shown = verify(casrewind, files, "--expect", files[1], "--store", tmp_path / "empty")
    assert shown.out == f"sound: 2 statements, the last one {files[1]}\n" and shown.err == ""
    assert list((tmp_path / "empty").iterdir()) == []


def test_json_has_the_same(casrewind, files):
    words = ("--proof", files[0] / "proof.json", "--public-key", files[0] / "key.pub")
    found = casrewind.json("verify", *words, "--expect", files[1])
    assert (found["ok"], found["problems"], found["statements"], found["anchor"]) == (True, [], 2, files[1])
    found = casrewind.json("verify", *words, "--expect", "0" * 64, code=20)
    assert not found["ok"] and "not in this chain" in found["problems"][0]


def test_files_are_compared_with_the_list(casrewind, files, root):
    assert "sound: " in verify(casrewind, files, root).out
    plant(root, {"a": b"other", "new\x1b": b"n"})
    shown = verify(casrewind, files, root, code=20)
    assert "NOT PROVEN: a is not as the proof has it\n" in shown.out and "not covered: new" in shown.err and "\x1b" not in shown.err


def test_what_is_wrong_is_named(casrewind, files, root):
    where = files[0]
    assert "no public Ed25519 key" in casrewind("verify", "--proof", where / "proof.json", "--public-key", root / "a", code=64).err
    assert "cannot read" in casrewind("verify", "--proof", where / "none", "--public-key", where / "key.pub", code=64).err
    assert "--proof needs --public-key FILE" in casrewind("verify", "--proof", where / "proof.json", code=64).err
    for text in ("", "[]", '{"payload": 1}', json.dumps({"payload": "e30=", "payloadType": "x", "signatures": []})):
        (where / "proof.json").write_text(text)
        assert "NOT PROVEN: " in verify(casrewind, files, code=20).out
    assert "is a directory" in casrewind("verify", "--proof", root, "--public-key", where / "key.pub", code=64).err.lower()


def test_the_key_is_the_person_s_alone(casrewind, files, home):
    key = next(home.rglob("proof.key"))
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o644)
    assert "others can read" in casrewind("attest", code=1).err
