"""The stat cache as a scan asks for it: the sheet, what of it is stale, and records one by one or all at once."""

import os
import shutil

import pytest

from casrewind.store import remembered as remembering
from support.scanner import settle
from support.trees import plant

MANY = {f"d{n}/f": b"%d" % n for n in range(90)}


@pytest.fixture
def saved(workspace, root):
    plant(root, MANY)
    settle()
    workspace.save()
    return workspace


def stamps(workspace):
    return workspace._site.remembered()


def test_a_save_leaves_a_sheet_and_an_edit_makes_some_of_it_stale(saved, root):
    assert stamps(saved).sheet.stale == {b""}
    (root / "d7" / "f").write_bytes(b"other")
    settle()
    saved.save()
    before = stamps(saved).sheet
    assert before.stale == {b"", b"d7"}
    assert not saved.save().created
    assert stamps(saved).sheet == before


def test_a_sheet_that_is_mostly_stale_is_made_anew(saved, root):
    for n in range(80):
        (root / f"d{n}" / "f").write_bytes(b"other")
    settle()
    old = stamps(saved).sheet
    saved.save()
    new = stamps(saved).sheet
    assert new.stale == {b""} and new.data != old.data and len(new.data) == len(old.data)


def test_a_sheet_that_is_too_old_for_some_is_brought_up_to_date(saved, root, monkeypatch):
    from casrewind.worktree import sheetmaker

    made = []
    usual = sheetmaker.build
    monkeypatch.setattr(sheetmaker, "build", lambda remember: made.append(remember) or usual(remember))
    for n in range(20):
        (root / f"d{n}" / "f").write_bytes(b"other")
    settle()
    old = stamps(saved)
    found = saved.save()
    new = stamps(saved)
    assert not made and found.created and tuple(found.changes) == (0, 20, 0)
    assert new.sheet.stale == {b""} and new.sheet.data != old.sheet.data and new.sheet.data == usual(new.get)
    (root / "d3" / "f").write_bytes(b"more")
    settle()
    assert tuple(saved.save().changes) == (0, 1, 0) and saved.verify().problems == ()


def test_a_sheet_made_of_one_that_is_there_no_more_is_dropped(saved, root):
    from casrewind.store import stamprows

    key, sheet = saved.root.key, stamps(saved).sheet
    rows = {b"d5": b"newer", b"d6": b"newer"}

    def put(page):
        saved._site.store._books.change(lambda tables: stamprows.put_stamps(tables, key, stamprows.News(rows, page, saved._site.tree.life)), lambda: None)

    put(stamprows.Page(b"brought up to date", b"another", frozenset({b"d5"})))
    assert stamps(saved).sheet == sheet._replace(stale=frozenset({b"", b"d5", b"d6"}))
    data = sheet.data[:5000] + b"!" + sheet.data[5001:]
    put(stamprows.Page(data, sheet.name, frozenset({b"d5"})))
    found = stamps(saved).sheet
    assert found.data == data and found.stale == {b"", b"d6"} and found.name == stamprows.name_of(data)
    put(stamprows.Page(data[:4500], found.name))
    assert stamps(saved).sheet.data == data[:4500] and stamps(saved).sheet.stale == {b"", b"d5", b"d6"}


def test_of_a_sheet_only_what_is_other_than_it_was_is_written(saved):
    from casrewind.store import stamprows, table

    sheet = stamps(saved).sheet
    data = bytes(sheet.data[:4080]) + bytes(4080) + bytes(10)
    put, usual = [], table.Table.put_many_raw
    page = stamprows.Page(data, sheet.name)

    def work(tables):
        stamprows.put_stamps(tables, saved.root.key, stamprows.News({}, page, saved._site.tree.life))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table.Table, "put_many_raw", lambda self, items: put.append([value for _, value in items]) or usual(self, items))
        saved._site.store._books.change(work, lambda: None)
    assert put == [[bytes(4080), bytes(10)]] and stamps(saved).sheet.data == data


def test_what_is_expected_is_fetched_in_one_look(saved, monkeypatch):
    known = stamps(saved)
    places: set[bytes] = set()
    known.expect(places)
    places |= {b"d1", b"d2/e/f"}
    looks = []
    usual = known._books.view
    monkeypatch.setattr(known._books, "view", lambda work: looks.append(work) or usual(work))
    assert known.get(b"") and not looks
    assert known.get(b"d1") and known.get(b"d2") and known.get(b"d2/e") is None and len(looks) == 1
    assert known.get(b"d3") and len(looks) == 2 and known.at_hand(b"d1") and known.at_hand(b"d3") is None


def test_records_come_one_by_one_and_then_all_at_once(saved, monkeypatch):
    places = [b"", *(os.path.dirname(path).encode() for path in MANY)]
    monkeypatch.setattr(remembering, "_FEW", 1000)
    singly = stamps(saved)
    assert all(singly.get(place) for place in places) and singly._rows is None
    monkeypatch.setattr(remembering, "_FEW", 3)
    at_once = stamps(saved)
    assert [at_once.get(place) for place in places] == [singly.get(place) for place in places] and len(at_once._rows) == 91
    assert at_once.get(b"nowhere") is None and singly.get(b"nowhere") is None


def test_a_lost_index_takes_the_sheet_with_it_and_the_next_save_makes_it_again(saved, root):
    sheet = stamps(saved).sheet
    shutil.rmtree(os.path.join(saved.store_path, "index"))
    assert stamps(saved).sheet is None
    assert not saved.save().created
    assert stamps(saved).sheet == sheet


def test_gc_that_moves_anything_leaves_no_sheet(saved, root):
    for n in range(6):
        (root / "d0" / "f").write_bytes(b"%d" % n)
        settle()
        saved.save()
    assert stamps(saved).sheet is not None
    kept = saved.gc(saved._settings.limits._replace(max_count=1, keep_last=1))
    assert kept.dropped and stamps(saved).sheet is None
    assert saved.verify().problems == ()
    (root / "d0" / "f").write_bytes(b"last")
    settle()
    saved.save()
    assert stamps(saved).sheet is not None and saved.verify().problems == ()


def test_rehash_reads_all_and_leaves_a_sheet(saved, root):
    status = os.stat(root / "d3" / "f")
    saved.save(rehash=True)
    assert stamps(saved).sheet is not None and os.stat(root / "d3" / "f").st_mtime_ns == status.st_mtime_ns


def test_a_sheet_that_no_longer_fits_is_of_no_use_and_no_harm(saved, root):
    """Of another version, say: its bytes are sound, and nothing is known from them."""
    from casrewind.store import stamprows

    def work(tables):
        stamprows.put_stamps(tables, saved.root.key, stamprows.News({}, stamprows.Page(b"\xff of another version"), saved._site.tree.life))

    saved._site.store._books.change(work, lambda: None)
    (root / "d5" / "f").write_bytes(b"other")
    found = saved.save()
    assert found.created and tuple(found.changes) == (0, 1, 0)
    assert stamps(saved).sheet.data[0] != 0xFF
