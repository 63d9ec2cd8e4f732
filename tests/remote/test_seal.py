"""The keys of a remote: what a wrong key, another name or other bytes do."""

import pytest

from casrewind import errors
from casrewind.remote import seal

MASTER = bytes(range(32))
REMOTE = b"i" * 16
KEYS = seal.Keys(MASTER, REMOTE)
OTHER = seal.Keys(bytes(32), REMOTE)
ELSEWHERE = seal.Keys(MASTER, b"j" * 16)


def test_a_box_opens_what_it_sealed_and_nothing_else():
    box = KEYS.box(b"m" * 32, "name")
    sealed = box.seal(3, b"hello")
    assert KEYS.box(b"m" * 32, "name").open(3, sealed) == b"hello"
    assert b"hello" not in sealed and len(sealed) == 5 + seal.OVERHEAD
    for other, number, data in (
        (KEYS.box(b"n" * 32, "name"), 3, sealed), (KEYS.box(b"m" * 32, "names"), 3, sealed), (OTHER.box(b"m" * 32, "name"), 3, sealed),
        (ELSEWHERE.box(b"m" * 32, "name"), 3, sealed),
        (box, 4, sealed), (box, 3, sealed[:-1]), (box, 3, b""), (box, 3, sealed + b"\0"),
    ):  # fmt: skip
        with pytest.raises(seal.Unsealed):
            other.open(number, data)


def test_parts_that_are_cut_elsewhere_have_another_mac():
    macs = [KEYS.mac(parts) for parts in ([b"ab", b"c"], [b"a", b"bc"], [b"abc"], [b"abc", b""], [b"", b"abc"], [], [b""])]
    assert len(set(macs)) == len(macs) and {len(mac) for mac in macs} == {32}
    assert KEYS.mac(iter([b"ab", b"c"])) == macs[0] not in (OTHER.mac([b"ab", b"c"]), ELSEWHERE.mac([b"ab", b"c"]))


@pytest.mark.parametrize("length", [0, 16, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length):
    with pytest.raises(errors.RemoteError, match="has 32 bytes"):
        seal.Keys(bytes(length), REMOTE)


def test_a_new_key_is_new():
    assert seal.new_master() != seal.new_master() and len(seal.new_master()) == 32


def test_the_head_of_a_remote_names_it_only_with_its_key():
    head = seal.remote_head(MASTER, REMOTE)
    assert seal.check_head(MASTER, head) == REMOTE and seal.remote_head(MASTER, REMOTE) == head
    with pytest.raises(errors.RemoteError) as refused:
        seal.check_head(bytes(32), head, "the remote s3://team/shop")
    assert str(refused.value) == (
        "this is not the key of the remote s3://team/shop; casrewind remote key --show prints its key on a machine that has it; "
        "give that with --key-file FILE"
    )


def test_a_damaged_head_is_never_called_a_wrong_key():
    head = seal.remote_head(MASTER, REMOTE)
    for damaged in [*flipped(head), *(head[:n] for n in range(len(head))), head + b"\0"]:
        with pytest.raises(errors.RemoteError, match="is damaged|not a remote of casrewind|newer|first release"):
            seal.check_head(MASTER, damaged)


def flipped(data):
    return [data[:n] + bytes([data[n] ^ bit]) + data[n + 1 :] for n in range(len(data)) for bit in (1, 0x80)]


@pytest.mark.parametrize("version", [b"3", b"10", b"999999999"])
def test_a_head_of_a_later_version_says_to_upgrade(version):
    head = seal.remote_head(MASTER, REMOTE).replace(b"remote 2", b"remote " + version)
    with pytest.raises(errors.RemoteError, match="newer casrewind; upgrade casrewind"):
        seal.check_head(MASTER, head)


def test_a_head_of_the_version_before_the_first_release_says_what_to_do():
    with pytest.raises(errors.RemoteError, match="before its first release; make a new remote, and push there"):
        seal.check_head(MASTER, seal.remote_head(MASTER, REMOTE).replace(b"remote 2", b"remote 1"))


def test_a_passphrase_opens_the_key_that_it_locked():
    locked = seal.lock_key(MASTER, "Grüße, 3 words", REMOTE)
    assert seal.unlock_key(locked, "Gru\u0308ße, 3 words", REMOTE) == MASTER, "the same words of another keyboard"
    assert MASTER not in locked and seal.lock_key(MASTER, "Grüße, 3 words", REMOTE) != locked
    for words, remote in (("Grusse, 3 words", REMOTE), ("Grüße, 3 words", b"j" * 16)):
        with pytest.raises(seal.Unsealed, match="this passphrase does not open"):
            seal.unlock_key(locked, words, remote)


def test_a_damaged_locked_key_is_never_called_a_wrong_passphrase():
    locked = seal.lock_key(MASTER, "x", REMOTE)
    for damaged in [*flipped(locked), *(locked[:n] for n in range(len(locked))), locked + b"\0"]:
        with pytest.raises(errors.RemoteError, match="damaged|newer") as refused:
            seal.unlock_key(damaged, "x", REMOTE)
        assert not isinstance(refused.value, seal.Unsealed)
    with pytest.raises(errors.RemoteError, match="upgrade casrewind"):
        seal.unlock_key(b"CRK3" + locked[4:], "x", REMOTE)
