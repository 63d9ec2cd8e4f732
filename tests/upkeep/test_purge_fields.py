"""A text in any field of any record of a store: after its purge it is gone from every byte, or the purge says that it is not.

The danger prevented here: a field that is added to a record, and that the purge of a text forgets. So the fields are those of the
record types. A field is left out only if its name stands in OWN: its values are casrewind's own.
"""

import glob
import os

import pytest

from casrewind.errors import JournalOpen
from casrewind.model import checkpoint as checkpoints
from casrewind.model import cursor as cursors
from casrewind.model import undo_history, rewind_record
from casrewind.model import plan as plans
from casrewind.upkeep.save import Moment, save
from casrewind.store import agent_sessions, ledger, packs
from casrewind.store.failure_log import FailureLog
from support.secret_search import hits, secret
from casrewind.workspace import Workspace
from support.trees import plant

WORD = secret("fields")
RECORDS = (
    checkpoints.Checkpoint, checkpoints.Circumstances, undo_history.Operation, undo_history.Mark, undo_history.Adoption, rewind_record.Rewind,
    agent_sessions.AgentSession, cursors.Cursor,
)  # fmt: skip
OWN = {
    "Checkpoint": {"id", "worktree", "parent", "trigger", "tree", "domain", "cursor"},
    "Circumstances": {"turn", "op"},
    "Operation": {"op", "worktree", "target", "safety", "plan", "current"},
    "Mark": {"checkpoint"},
    "Adoption": {"old", "new"},
    "Rewind": {"worktree", "mode", "checkpoint", "safety"},
    "AgentSession": {"worktree", "pid_start"},
    "Cursor": {"prefix", "tail"},
}
"""Digests, keys, ids of checkpoints, words of a fixed list, and what is a record of its own here."""
KEPT = {
    "Checkpoint": {"root", "agent", "session"},
    "Circumstances": {"by_agent", "by_session", "machine"},
    "Operation": {"agent", "session"},
    "Mark": set(),
    "Adoption": {"root"},
    "Rewind": {"agent", "session", "parent", "transcript", "original"},
    "AgentSession": {"agent", "session", "transcript", "root", "env_file", "parent"},
    "Cursor": None,
}
"""Fields that a purge does not edit, and reports: ids of sessions, and paths. A cursor is reported whole."""


def values_of(record, text):
    """A record with a text in no field, and with values that its form asks for."""
    plain = {int: 1, str: "", bytes: b"", bool: True}
    more = {"worktree": b"w" * 16, "old": b"o" * 16, "new": b"n" * 16, "tree": b"t" * 32, "domain": b"d" * 32, "plan": b"p" * 32}
    made = {}
    for field, kind in record.__annotations__.items():
        made[field] = more.get(field, plain.get(kind)) if kind is bytes else plain.get(kind)
    return made


def fields():
    for record in RECORDS:
        for field, kind in record.__annotations__.items():
            if kind in (str, bytes) and field not in OWN[record.__name__]:
                yield pytest.param(record, field, id=f"{record.__name__}.{field}")


def put(workspace, record, field):
    """Make a record that has the text in this field, as casrewind makes it but for that."""
    context = workspace._context
    value = os.fsencode(WORD) if record.__annotations__[field] is bytes else WORD
    point, _ = workspace.checkpoints()[0]
    if record is checkpoints.Checkpoint:
        with context.store.writing() as session:
            draft = point._replace(id="c0123456789abcd", **{field: value})
            context.store.publish(session, draft, lambda _: draft)
    elif record is checkpoints.Circumstances:
        with context.store.writing() as session:
            draft = point._replace(id="c0123456789abcd", more=point.more._replace(**{field: value}))
            context.store.publish(session, draft, lambda _: draft)
    elif record is cursors.Cursor:
        plant(workspace.root.path, {"g": b"1"})
        made = cursors.Cursor(**values_of(record, value))._replace(**{field: value})
        save(context, Moment("prompt", agent="claude", session="s", cursor=cursors.encode(made)))
    elif record is agent_sessions.AgentSession:
        context.store.sessions.record(record(**values_of(record, value))._replace(**{field: value}))
    else:
        kind, encode = {
            undo_history.Operation: (ledger.RESTORE, undo_history.encode_operation), undo_history.Mark: (ledger.LABEL, undo_history.encode_mark),
            undo_history.Adoption: (ledger.ADOPT, undo_history.encode_adoption), rewind_record.Rewind: (ledger.SESSION, rewind_record.encode),
        }[record]  # fmt: skip
        made = record(**values_of(record, value))._replace(**{field: value})
        if record is undo_history.Operation:
            with context.store.writing() as session:
                plan = session.put(packs.PLAN, plans.encode([]))
                context.store.add_blobs(session)
            made = made._replace(op="restore", worktree=point.worktree, target=point.id, safety=point.id, plan=plan)
        context.store.append(kind, encode(made._replace(checkpoint=point.id) if "checkpoint" in made._fields else made))


@pytest.mark.parametrize(("record", "field"), list(fields()))
def test_a_text_in_any_field_is_gone_or_is_reported(workspace, root, record, field):
    plant(root, {"f": b"1"})
    workspace.save()
    put(workspace, record, field)
    workspace.checkpoints()  # the index follows
    before = hits(workspace.store_path, WORD)
    assert before, "the text was not stored"
    kept = KEPT[record.__name__]
    report = workspace.purge_text(os.fsencode(WORD))
    left = hits(workspace.store_path, WORD)
    if kept is None or field in kept:
        assert report.records >= 1, (before, left)
    else:
        assert left == {}, left
        assert sum(report.places) >= 1
        assert report.records == 0
    assert workspace.verify().problems == ()


def test_a_text_in_every_place_at_once_is_in_no_byte_afterwards(workspace, root, settings):
    """What is not a record, too: logs, set-aside journals and packs, drafts, stat files, free pages of the index."""
    plant(root, {"f": b"1"})
    context = workspace._context
    for number in range(3):
        plant(root, {"f": b"%d" % number})
        more = checkpoints.Circumstances(event=f"e {WORD}", reason=f"r {WORD}", branch=f"b/{WORD}", commit=WORD, target=WORD)
        save(context, Moment("prompt", prompt=f"p {WORD}", label=f"l {WORD}", more=more))
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text(f"ref: refs/heads/{WORD[:24]}\n")
    plant(root, {"f": b"on a branch"})
    with Workspace(str(root), settings, create=False) as again:
        assert again.save().checkpoint.more.branch == WORD[:24]
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    store = workspace.store_path
    row = agent_sessions.AgentSession(
        agent="claude", session="s", transcript="", root=str(root), worktree="", updated_ns=5, event=f"e {WORD}", running=True,
        pid=1, pid_start="", env_file="", parent="",
    )  # fmt: skip
    context.store.sessions.record(row)
    FailureLog(store).append_line(f"failed at {WORD}")
    for name in ("journals/00.damaged-1", "ledger.cut-1-a", "damaged/x.pack", "tmp/casrewind-draft-abcdef012345", "index/stat-00", "ledger.damaged-1"):
        path = os.path.join(store, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(os.fsencode(WORD))
    before = hits(store, WORD)
    assert {"ledger", "index/data.mdb", "log", "session.json"} <= before.keys()
    assert len(glob.glob(f"{store}/sessions/*")) == 1
    report = workspace.purge_text(os.fsencode(WORD))
    assert workspace.purge_text(os.fsencode(WORD[:24])).places.details == 1
    assert hits(store, WORD) == {}
    assert tuple(report.places) == (0, 3, 3, 4, 1)
    point = workspace.checkpoints()[-1][0]
    assert (point.prompt, point.label, point.more.branch, point.more.event, point.more.reason) == ("***",) * 5
    assert [(seen.session, seen.event, seen.pid) for seen in context.store.sessions.all()] == [("s", "***", 1)]


IN_META = [((WORD, "7"), WORD), (("key", WORD), WORD), (("key", WORD), f"key={WORD}"), ((f"{WORD} key", f"{WORD} b"), WORD)]


@pytest.mark.parametrize(("pair", "text"), IN_META, ids=["key", "value", "both sides of =", "both"])
def test_a_text_in_the_meta_of_a_save_is_gone(workspace, root, pair, text):
    """In a key, in a value, in both. Across both it is as a person sees it: key=value."""
    plant(root, {"f": b"1"})
    workspace.save(meta=dict([pair, ("step", "3")]))
    assert hits(workspace.store_path, WORD)
    assert workspace.purge_text(os.fsencode(text), dry_run=True).places.details == 1
    assert workspace.purge_text(os.fsencode(text)).places.details == 1
    assert hits(workspace.store_path, WORD) == {}
    meta = workspace.checkpoints()[0][0].meta
    assert meta == {"***" if WORD in pair[0] else pair[0]: "***", "step": "3"}
    assert workspace.verify().problems == ()


def test_a_dry_run_counts_and_edits_nothing(workspace, root):
    plant(root, {"f": b"1"})
    context = workspace._context
    save(context, Moment("prompt", more=checkpoints.Circumstances(branch=WORD, reason=WORD)))
    before = hits(workspace.store_path, WORD)
    assert workspace.purge_text(os.fsencode(WORD), dry_run=True).places.details == 1
    assert hits(workspace.store_path, WORD) == before != {}


def test_an_open_restore_is_refused_so_its_journal_needs_no_editing(workspace, root):
    plant(root, {"f": b"1"})
    point = workspace.save().checkpoint
    journals = workspace._context.store.journals
    journals.write(undo_history.Operation("restore", 1, point.worktree, point.id, point.id, point.tree, "", "claude", WORD))
    with pytest.raises(JournalOpen):
        workspace.purge_text(os.fsencode(WORD))
