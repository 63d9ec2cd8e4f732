"""Everything that is decoded, with real bytes of it: what a store holds, what hooks and transcripts are, configuration.

`seeds` gives (name, decoder, real bytes). A decoder of what lies in a file writes the bytes to one first.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from casrewind import agents, config
from casrewind.agents import event
from casrewind.agents.transcript import parse_lines as transcript_lines
from casrewind.model import checkpoint, cursor, domain, manifest, undo_history, plan, rewind_record, directory_nodes
from casrewind.model import digest as digests
from casrewind.history import present_scan
from casrewind.store import chunker, journal, ledger, packs, stat_file
from casrewind.store.layout import Layout
from casrewind.store.agent_sessions import AgentSession, AgentSessions
from casrewind.workspace import Workspace
from casrewind.gitignore import gitconfig
from casrewind.worktree.stat_index import StaleIndex, StatIndex
from support import transcripts
from support.scanner import settle
from support.stores import filled, nth_newest
from support.trees import plant

DATA = Path(__file__).parent.parent / "agents" / "data"
OPERATIONS = {ledger.RESTORE, ledger.UNDO, ledger.REDO}
BODIES = {packs.TREE: manifest.decode_node, packs.CHUNK_LIST: chunker.decode_node, packs.DOMAIN: domain.decode, packs.PLAN: plan.decode}
NAMES = {manifest.decode_node: "tree", chunker.decode_node: "chunk list", domain.decode: "domain", plan.decode: "plan"}


def record(data):
    head = packs.decode_record_head(data)
    if head is not None:
        packs.checked_blob_of_record(data, head[2], "pack")


def lying_record(data):
    """A record whose head checks whatever it says: what is in it is looked at."""
    if len(data) >= packs.RECORD.size:
        _, kind, codec, _, digest, raw, stored, _ = packs.RECORD.unpack(data[: packs.RECORD.size])
        packs.checked_blob_of_record(packs.encode_head(kind, codec, digest, raw, stored) + data[packs.RECORD.size :], digest, "pack")


def book(data):
    position = 0
    while (found := ledger.decode(data, position)) is not None:
        position = found.end


def lying_journal(data):
    """A journal whose checksum fits whatever it says."""
    journal.decode(data + digests.of(data)[:16])


def transcript(name):
    def work(data):
        agent = agents.load_conversation_client(name)
        for line in transcript_lines(data):
            agent.kind_of_line(line.value)
        for prompt in agent.prompts(data, every=True):
            agent.cut_before_prompt(data, prompt)
        agent.title_of(data)

    return work


class Files:
    """Decoders of what is read from a file: the bytes go to one below `place` first."""

    def __init__(self, place):
        self.place = str(place)
        for name in ("store", "packs", "sessions", "tmp"):
            os.makedirs(os.path.join(self.place, name), mode=0o700)
        self._sessions = AgentSessions(self.place)

    def _write(self, name, data):
        path = os.path.join(self.place, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def git(self, data):
        gitconfig.read_git_settings(None, None, {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": self._write("gitconfig", data)})

    def format(self, data):
        Layout(os.path.dirname(self._write("store/FORMAT", data))).raise_unless_sound()

    def ledger(self, data):
        book_of = ledger.Ledger(self._write("ledger", data))
        book_of.identity()
        list(book_of.read(0, 0))

    def pack(self, data):
        self._write("packs/one.pack", data)
        found = list(packs.records_of_pack(os.path.join(self.place, "packs"), "one"))
        reader = packs.PackReader(os.path.join(self.place, "packs"))
        try:
            for digest, place in found:
                reader.read(place, digest)
        finally:
            reader.close()

    def session(self, data):
        self._write("sessions/claude-1.json", data)
        self._sessions.all()

    def real_session(self):
        """Such a file, as it is written."""
        known = AgentSession("claude", "1-2", "/a/transcript", "/a", "0" * 32, 7 * 10**18, "Stop", True, 77, "8", "/a/env", "0-1")
        self._sessions.record(known)
        assert self._sessions.all() == [known]
        [path] = (Path(self.place) / "sessions").iterdir()
        data = path.read_bytes()
        path.unlink()
        return data


def stat_value(root):
    """The parser of stat indexes, used as a scan does: compared with the worktree, everything taken over that may be, brought up to date."""
    fd = os.open(root, os.O_RDONLY)  # for as long as the process lives

    def work(data):
        found = StatIndex(data)
        with suppress(StaleIndex):
            found.compare(fd, os.fstat(fd).st_dev)
            for path in (b"", b"d0", b"d0/deep", b"d1", b"d2"):
                for rules in {found.record_of_directory(above).rules for above in (b"", b"d0") if found.record_of_directory(above)} | {bytes(32)}:
                    found.unchanged_subtree(path, rules)
            found.updated_value({})

    return work


def stat_file_at(place):
    """The reader of stat files, whatever they stand for."""

    def work(data):
        worktree = data[36:52].ljust(16, b"\0")
        with open(stat_file.stat_file_path(place, worktree), "wb") as file:
            file.write(data)
        stat_file.read_basis(place, worktree)
        stat_file.read_stat_file(place, worktree)
        os.unlink(stat_file.stat_file_path(place, worktree))

    return work


class Stop(BaseException):
    """A restore is left at its first action."""


def in_packs(store):
    for path in sorted((store / "packs").iterdir()):
        for digest, place in packs.records_of_pack(str(store / "packs"), path.stem):
            with open(path, "rb") as file:
                raw = os.pread(file.fileno(), place.length, place.offset)
            if len(raw) < 20_000:
                yield "pack record", record, raw
                yield "pack record with a sound head", lying_record, raw
            decoder = BODIES.get(packs.decode_record_head(raw)[0])
            if decoder is not None:
                yield NAMES[decoder], decoder, packs.checked_blob_of_record(raw, digest, "")


def in_ledger(data):
    position = ledger.HEAD.size
    yield "ledger", book, data[position:]
    while (row := ledger.decode(data, position)) is not None:
        if row.kind == ledger.CHECKPOINT:
            yield "checkpoint", lambda data: checkpoint.decode(1, data), row.payload
            yield "cursor", cursor.decode, checkpoint.decode(1, row.payload).cursor
        elif row.kind in OPERATIONS:
            yield "operation", undo_history.decode_operation, row.payload
            history = undo_history.history_after(undo_history.NO_HISTORY, undo_history.decode_operation(row.payload)._replace(safety="c0"))
            yield "history", undo_history.decode_history_record, undo_history.encode_history_record(bytes(16), history)
        else:
            yield "mark", undo_history.decode_mark, row.payload
        position = row.end
    told = rewind_record.Rewind(7 * 10**18, bytes(range(16)), "claude", rewind_record.FORK, "2-3", "1-2", b"/a/fork", b"/a/transcript", "c0ffee")
    yield "rewind", rewind_record.decode, rewind_record.encode(told)
    yield "forgotten", undo_history.decode_forgotten, undo_history.encode_forgotten(["c0ffee", "c1ffee"])
    nodes = [directory_nodes.NodeRef(b"name %03d" % number, digests.of(b"%d" % number)) for number in range(70)]
    yield "list of nodes", manifest.decode_node, directory_nodes.encode(directory_nodes.NodeList(1, nodes))
    yield "adoption", undo_history.decode_adoption, undo_history.encode_adoption(undo_history.Adoption(bytes(16), bytes(range(16)), b"/b"))


def of_store(root, settings, files):
    """What a store is made of, as it lies there: with a restore that was left in its middle."""
    plant(root, {"big": os.urandom(1_500_000), ".gitignore": b"*.tmp\n/x\n", "d0/deep/f": b"f", "d0/deep/x.tmp": b"ignored"})
    os.mkfifo(root / "d0" / "deep" / "fifo")
    store = Path(filled(root, settings))

    def stop(what, *_):
        if what == "restoring":
            raise Stop

    with Workspace(str(root), settings, create=False, progress=stop) as workspace:
        try:
            workspace.restore(nth_newest(workspace, 3))
        except Stop:
            pass
        [open_one] = [path.read_bytes() for path in (store / "journals").iterdir()]
        yield "journal", journal.decode, open_one
        yield "journal with a sound checksum", lying_journal, open_one[:-16]
        settle()
        workspace.save()
        context = workspace._context
        index = present_scan.read_stat_index(context)
        assert {path for path in (b"d0", b"d0/deep", b"d1", b"d2", b"d3") if index.record_of_directory(path)} == {b"d0", b"d0/deep", b"d1", b"d2", b"d3"}
        yield "stat index", stat_value(root), index.value
        [whole] = (store / "index").glob("stat-*")
        yield "stat file", stat_file_at(files.place), whole.read_bytes()
    yield from in_packs(store)
    for path in sorted((store / "packs").iterdir()):
        if path.stat().st_size < 100_000:
            yield "pack file", files.pack, path.read_bytes()
    yield from in_ledger((store / "ledger").read_bytes())
    yield "ledger file", files.ledger, (store / "ledger").read_bytes()
    yield "FORMAT", files.format, (store / "FORMAT").read_bytes()
    yield "session file", files.session, files.real_session()


def of_clients():
    for path in sorted((DATA / "claude_hooks").glob("*.json"))[:8]:
        payload = json.dumps(json.loads(path.read_text())["stdin"]).encode()
        yield "hook", lambda data: event.read_event(agents.load_client("claude"), data, {}), payload
    for name, data in (("claude", transcripts.claude(transcripts.CLAUDE[0])), ("droid", transcripts.droid())):
        yield f"transcript of {name}", transcript(name), data[:8_000]


def of_people(files):
    text = b'[retention]\nmax_age = "30d"\nmax_count = 2000\nmax_size = "5GiB"\n[capture]\ndefault_excludes = true\n[hooks]\ntier = "balanced"\n'
    yield "config.toml", lambda data: config.read_user_config(data.decode("utf-8", "surrogateescape"), "config.toml", {}), text
    text = b'ignore = ["*.log", "/x"]\n[capture]\nmax_file_size = "1MiB"\n'
    yield ".casrewind.toml", lambda data: config.read_project(data.decode("utf-8", "surrogateescape")), text
    text = b'[core]\n\tignoreCase = true\n\texcludesFile = "~/x y" ; c\n[include]\n\tpath = other\n[includeIf "gitdir:~/a/**"]\n\tpath = b\n'
    yield "gitconfig", files.git, text


def seeds(root, settings, place):
    """[(name, decoder, real bytes)] of everything that is decoded; `place` is a directory for files."""
    files = Files(place)
    return [*of_store(root, settings, files), *of_clients(), *of_people(files)]
