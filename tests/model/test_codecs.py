"""Every encoded value: it comes back, equal values have equal bytes, and no bytes at all upset a decoder."""

import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from casrewind import errors
from casrewind.model import checkpoint as checkpoints
from casrewind.model import domain as domains
from casrewind.model import tlv, manifest, plan, directory_nodes
from casrewind.model import undo_history
from casrewind.model import rewind_record as rewinds
from casrewind.store import chunker, journal, ledger, packs
from support import random_values

RUN = settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

pairs = st.lists(
    st.tuples(st.integers(0, 65535), st.one_of(st.binary(max_size=20), random_values.int64, random_values.texts)), max_size=6,
    unique_by=lambda pair: pair[0],
)
CODECS = {
    "tree": (random_values.trees, manifest.encode_tree, manifest.decode_tree),
    "list of nodes": (random_values.node_lists, directory_nodes.encode, directory_nodes.decode),
    "domain": (random_values.domain_values, domains.encode, domains.decode),
    "plan": (st.lists(random_values.actions, max_size=4).map(tuple), plan.encode, plan.decode),
    "checkpoint": (
        random_values.checkpoint_values.map(lambda point: point._replace(seq=7)),
        checkpoints.encode,
        lambda data: checkpoints.decode(7, data),
    ),
    "mark": (
        st.builds(undo_history.Mark, random_values.ids, random_values.texts), undo_history.encode_mark, undo_history.decode_mark,
    ),
    "operation": (random_values.operation_values, undo_history.encode_operation, undo_history.decode_operation),
    "rewind": (random_values.rewind_values, rewinds.encode, rewinds.decode),
    "history": (random_values.histories, undo_history.encode_history, undo_history.decode_history),
    "list": (st.lists(st.binary(max_size=20)), tlv.encode_list, lambda data: tlv.decode_list(data, "list")),
    "journal": (random_values.operation_values, journal.encode, journal.decode),
}


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_encoded_comes_back(codec):
    strategy, encode, decode = CODECS[codec]

    @RUN
    @given(strategy)
    def check(value):
        data = encode(value)
        assert decode(data) == value
        assert encode(decode(data)) == data

    check()


@pytest.mark.parametrize("codec", CODECS)
def test_no_bytes_make_a_decoder_raise_anything_but_its_own_errors(codec):
    strategy, encode, decode = CODECS[codec]

    def attempt(data):
        try:
            decode(data)
        except errors.CasrewindError as error:
            assert str(error)

    @RUN
    @given(st.one_of(st.binary(max_size=200), random_values.damaged(strategy.map(encode))))
    @example(b"")
    def check(data):
        attempt(data)

    check()


@pytest.mark.parametrize("codec", ["tree", "list of nodes", "plan", "journal"])
def test_a_cut_at_any_byte_is_noticed(codec):
    strategy, encode, decode = CODECS[codec]

    @settings(RUN, max_examples=15)
    @given(strategy)
    def check(value):
        data = encode(value)
        for length in range(len(data)):
            with pytest.raises(errors.CasrewindError):
                decode(data[:length])
        with pytest.raises(errors.CasrewindError):
            decode(data + b"\0")

    check()


@pytest.mark.parametrize("codec", ["domain", "checkpoint", "mark", "operation", "rewind"])
def test_fields_of_a_later_version_are_passed_over(codec):
    strategy, encode, decode = CODECS[codec]

    @settings(RUN, max_examples=15)
    @given(strategy, st.integers(1000, 65535), st.binary(max_size=20))
    def check(value, tag, data):
        assert decode(encode(value) + tlv.encode([(tag, data)])) == value
        assert decode(tlv.encode([(tag, data)]) + encode(value)) == value

    check()


@RUN
@given(random_values.trees, st.randoms(use_true_random=False))
def test_a_tree_has_the_same_bytes_in_whatever_order_its_names_come(tree, shuffled):
    other = list(tree)
    shuffled.shuffle(other)
    assert manifest.encode_tree(other) == manifest.encode_tree(tree)


@RUN
@given(random_values.domain_values, st.randoms(use_true_random=False))
def test_a_domain_has_the_same_bytes_in_whatever_order_its_parts_come(domain, shuffled):
    parts = [list(part) for part in (domain.rules, domain.skipped, domain.unstable)]
    for part in parts:
        shuffled.shuffle(part)
    rules, skipped, unstable = map(tuple, parts)
    other = domain._replace(rules=rules, skipped=skipped, unstable=unstable)
    assert domains.encode(other) == domains.encode(domain)


@RUN
@given(random_values.trees.filter(lambda tree: len(tree) > 1))
def test_a_tree_whose_names_are_out_of_order_or_double_is_refused(tree):
    def raw(rows):
        return (
            manifest.MAGIC + len(rows).to_bytes(4, "little")
            + b"".join(manifest.encode_entry(name, entry) for name, entry in rows)
        )

    shared = {}
    assert manifest.decode_tree(raw(tree)) == manifest.decode_tree(raw(tree), shared) == tree
    for wrong in ([*reversed(tree)], [tree[0], tree[0]]):
        for known in (None, shared):
            with pytest.raises(errors.ManifestCorrupt):
                manifest.decode_tree(raw(wrong), known)


@RUN
@given(random_values.trees, random_values.trees)
def test_trees_that_are_decoded_together_share_their_equal_entries(one, other):
    shared = {}
    mixed = dict(sorted({**dict(one), **dict(other[::2])}.items()))
    first, second = (manifest.decode_tree(manifest.encode_tree(rows), shared) for rows in (one, mixed.items()))
    assert first == one and second == list(mixed.items())
    rows = {row[0]: row for row in first if row[1].kind != manifest.LINK}
    assert all(row is rows[row[0]] for row in second if rows.get(row[0]) == row)


@RUN
@given(random_values.trees, st.data())
def test_a_tree_that_is_cut_is_refused_with_known_entries_too(tree, data):
    shared, raw = {}, manifest.encode_tree(tree)
    manifest.decode_tree(raw, shared)
    with pytest.raises(errors.ManifestCorrupt):
        manifest.decode_tree(raw[: data.draw(st.integers(0, len(raw) - 1))], shared)


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"a\0b", b".git", b".GIT", b"x" * 256])
def test_a_tree_with_a_name_that_no_restore_may_write_is_neither_written_nor_read(name):
    entry = manifest.link_entry(b"x")
    with pytest.raises(errors.UnsafePath):
        manifest.encode_tree([(name, entry)])
    if len(name) < 256:  # a longer one cannot even be encoded: its length is one byte
        data = manifest.MAGIC + (1).to_bytes(4, "little") + manifest.encode_entry(name, entry)
        with pytest.raises(errors.UnsafePath):
            manifest.decode_tree(data)


@pytest.mark.parametrize("path", [b"", b"/a", b"a/../b", b"a//b", b"a/.git/x", b"a/", b"./a", b"a\0"])
def test_a_plan_with_a_path_that_no_restore_may_touch_is_not_read(path):
    for action in (plan.Action(path, None, manifest.link_entry(b"x"), path), plan.Action(b"ok", None, None, path)):
        with pytest.raises(errors.UnsafePath):
            plan.decode(plan.encode([action]))


def test_a_plan_with_unknown_bits_or_a_named_entry_is_refused():
    entry = manifest.link_entry(b"x")
    good = plan.encode([plan.Action(b"a", None, entry, b"a")])
    assert good[8] == 2
    for bits in (10, 18, 128 + 2):
        with pytest.raises(errors.ManifestCorrupt):
            plan.decode(good[:8] + bytes([bits]) + good[9:])
    named = good[:8] + b"\x02" + b"\x01\0\0\0a" + manifest.encode_entry(b"name", entry)
    with pytest.raises(errors.ManifestCorrupt):
        plan.decode(named)


def test_a_domain_whose_items_are_cut_short_is_refused():
    rule = (7).to_bytes(2, "little") + b"exclude" + b"d" * 31
    skip = (9).to_bytes(2, "little") + b"short"
    for rules, skipped in (([rule], []), ([b"\x01"], []), ([], [skip]), ([], [b"\x05"])):
        data = tlv.encode([(3, 1), (4, tlv.encode_list(rules)), (5, tlv.encode_list(skipped))])
        with pytest.raises(errors.ManifestCorrupt):
            domains.decode(data)


def test_a_record_with_a_field_twice_missing_or_of_a_wrong_size_is_refused():
    good = undo_history.encode_mark(undo_history.Mark("c123", "label"))
    for bad in (good + good, tlv.encode([(2, "label")]), good[:-1], good + b"\0"):
        with pytest.raises(errors.ManifestCorrupt):
            undo_history.decode_mark(bad)
    with pytest.raises(errors.ManifestCorrupt):
        tlv.Fields(tlv.encode([(1, b"123")]), "record").number(1)
    with pytest.raises(errors.ManifestCorrupt):
        tlv.Fields(tlv.encode([(1, b"123")]), "record").bytes_or_empty(1, 4)


def test_text_that_is_no_text_at_all_is_stored_without_a_crash():
    lone = "\ud800 lone"
    data = undo_history.encode_mark(undo_history.Mark("c1", lone))
    assert undo_history.decode_mark(data).label


@pytest.mark.parametrize("decode", [
    lambda data: chunker.decode_node(data), lambda data: packs.decode_record_head(data), lambda data: ledger.decode(data, 0),
], ids=["chunk list", "pack record", "ledger record"])
def test_random_bytes_behind_a_right_magic_do_not_upset_the_low_decoders(decode):
    source = random.Random(5)
    for magic in (chunker.MAGIC, packs.RECORD_MAGIC, ledger.RECORD_MAGIC, b""):
        for length in range(200):
            try:
                found = decode(magic + source.randbytes(length))
            except errors.CasrewindError:
                continue
            assert found is None, "random bytes were taken for a record"


@pytest.mark.parametrize("claim", [0xFFFFFFFF, 1 << 20])
def test_a_count_that_claims_more_than_there_is_costs_nothing(claim):
    """Refused at the first missing entry: nothing is allocated for what a count promises."""
    for magic, decode in ((manifest.MAGIC, manifest.decode_tree), (plan.MAGIC, plan.decode)):
        with pytest.raises(errors.ManifestCorrupt):
            decode(magic + claim.to_bytes(4, "little"))
    with pytest.raises(errors.ManifestCorrupt):
        chunker.decode_node(chunker.MAGIC + b"\0" + claim.to_bytes(4, "little"))
