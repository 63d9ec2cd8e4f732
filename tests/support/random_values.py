"""Hypothesis strategies for the values that the project encodes, and ways to damage bytes."""

from blake3 import blake3
from hypothesis import strategies as st

from casrewind.model import domain as domains
from casrewind.model import manifest, undo_history, paths, rewind_record
from casrewind.model.checkpoint import TRIGGERS, Checkpoint, Circumstances
from casrewind.model.diff import Counts
from casrewind.model.plan import Action
from casrewind.model.directory_nodes import NodeList, NodeRef

digests = st.binary(min_size=32, max_size=32)
keys = st.binary(min_size=16, max_size=16)
modes = st.integers(0, 0o7777)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
uint64 = st.integers(0, (1 << 64) - 1)
# what a command line can hold: any text, and bytes that are no UTF-8 in the form that Python gives them
texts = st.text(max_size=20).map(lambda t: t.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))
ids = st.text("abcdef0123456789", min_size=1, max_size=15).map("c".__add__)

names = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.text(min_size=1, max_size=6).map(lambda t: t.encode("utf-8", "surrogatepass")),
    st.sampled_from([b"a", b"b", b"a.b", b"\xff\xfe", b"n" * 255, b".gitignore", "é".encode(), b"a\nb"]),
).filter(lambda name: paths.why_bad_name(name) is None)
some_paths = st.lists(names, min_size=1, max_size=4).map(b"/".join)

files = st.builds(
    manifest.Entry, st.just(manifest.FILE), modes, uint64, int64, digests, st.just(b""), st.one_of(st.just(b""), digests)
)
directories = st.builds(lambda mode, tree: manifest.Entry(manifest.DIR, mode, digest=tree), modes, digests)
targets = st.binary(min_size=1, max_size=40).filter(lambda target: b"\0" not in target)
links = st.builds(manifest.link_entry, targets)
purged = st.builds(lambda mode, size: manifest.Entry(manifest.PURGED, mode, size), modes, uint64)
entries = st.one_of(files, directories, links, purged)
trees = st.dictionaries(names, entries, max_size=8).map(lambda rows: sorted(rows.items()))
node_lists = st.builds(
    lambda level, firsts: NodeList(level, [NodeRef(first, blake3(first).digest()) for first in sorted(firsts)]),
    st.integers(1, 8), st.sets(names, min_size=2, max_size=9),
)

reasons = st.sampled_from(sorted({domains.SPECIAL, domains.TOO_LARGE, domains.UNREADABLE, domains.STORE}))
domain_values = st.builds(
    domains.Domain,
    ignore_case=st.booleans(),
    default_excludes=st.booleans(),
    max_file_size=int64,
    rules=st.lists(st.builds(domains.RuleRef, some_paths, texts, digests), max_size=4).map(sorted).map(tuple),
    skipped=st.lists(st.builds(domains.Skip, some_paths, reasons), max_size=4).map(sorted).map(tuple),
    unstable=st.lists(some_paths, max_size=4).map(sorted).map(tuple),
    ignored=int64,
    late=st.lists(some_paths, max_size=4).map(sorted).map(tuple),
    unstored=st.lists(st.builds(domains.RuleRef, some_paths, texts, digests), max_size=4).map(sorted).map(tuple),
    stop=st.none() | st.builds(domains.Stop, ids, int64, st.lists(some_paths, max_size=4).map(sorted).map(tuple)),
)
_sides = st.one_of(st.none(), files, directories, links)
actions = st.builds(
    lambda path, before, after, respelled: Action(path, before, after, path.lower() if respelled else path),
    some_paths,
    _sides,
    _sides,
    st.booleans(),
)
circumstances = st.builds(
    Circumstances, st.one_of(st.just(""), ids), texts, texts, int64, int64, st.sampled_from([None, True, False]), int64, *[texts] * 6,
    meta=st.dictionaries(texts, texts, max_size=3).map(dict.items).map(tuple), subagent=texts, subagent_type=texts, subagent_root=texts, written=texts,
)
checkpoint_values = st.builds(
    Checkpoint,
    more=st.one_of(st.just(Circumstances()), circumstances),
    seq=st.integers(1, 1 << 40),
    id=ids,
    created_ns=int64,
    worktree=keys,
    root=some_paths,
    parent=ids,
    trigger=st.sampled_from(sorted(TRIGGERS)),
    label=texts,
    prompt=texts,
    agent=texts,
    session=texts,
    tree=digests,
    domain=digests,
    files=int64,
    size=int64,
    changes=st.builds(Counts, int64, int64, int64),
    skipped=int64,
    flags=int64,
    cursor=st.binary(max_size=30),
    transcript=st.one_of(st.none(), files),
    elapsed_ms=int64,
)
operation_values = st.builds(
    undo_history.Operation,
    op=st.sampled_from([undo_history.RESTORE, undo_history.UNDO, undo_history.REDO]),
    created_ns=int64,
    worktree=keys,
    target=ids,
    safety=ids,
    plan=digests,
    current=ids,
)
rewind_values = st.builds(
    rewind_record.Rewind,
    created_ns=int64,
    worktree=keys,
    agent=texts,
    mode=st.sampled_from([rewind_record.FORK, rewind_record.IN_PLACE]),
    session=texts,
    parent=texts,
    transcript=st.binary(max_size=30),
    original=st.binary(max_size=30),
    checkpoint=st.one_of(st.just(""), ids),
)
steps = st.builds(undo_history.Step, digests, ids, ids, ids)
histories = st.builds(
    undo_history.History,
    st.lists(steps, max_size=3).map(tuple),
    st.lists(steps, max_size=3).map(tuple),
    ids,
)


@st.composite
def damaged(draw, whole):
    """Bytes near those that `whole` gives: some flips, a cut, an insertion, or a part repeated."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        how = draw(st.sampled_from(["flip", "cut", "insert", "big", "repeat"]))
        if how == "flip" and at < len(data):
            data[at] ^= draw(st.integers(1, 255))
        elif how == "cut":
            del data[at:]
        elif how == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=9))
        elif how == "big":  # a length or a count that claims far more than there is
            data[at : at + 4] = b"\xff\xff\xff\xff"
        else:
            data[at:at] = data[:at]
    return bytes(data)
