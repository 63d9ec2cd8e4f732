"""Records of a machine with the key that makes any of them: each field odd, about its own checkpoints or those of others. Seeded."""

from casrewind.model import checkpoint as checkpoints
from casrewind.model import cursor as cursors
from casrewind.model import digest as digests
from casrewind.model import undo_history, rewind_record
from casrewind.model.checkpoint import Checkpoint, Circumstances
from casrewind.model.diff import Counts
from casrewind.model.manifest import FILE, Entry
from casrewind.remote.arriving import key_here
from casrewind.remote.objects import Objects
from casrewind.remote.piece import CONTAINER, CONTENT, FIRST, PieceBuilder
from casrewind.remote.piece_names import piece_name
from casrewind.store import ledger

from . import handmade_checkpoints as handmade
from .handmade_points import DATA, DOMAIN, GOOD
from .machines import keys_of

PLANTED = b"planted"
OTHER = handmade.tree(handmade.file_row(b"planted", digests.of(PLANTED), len(PLANTED)))
MOST = (1 << 63) - 1
TEXTS = (
    "", "a", "works", "last", "prev", "1", "@1", "after:1", "remote:x", "sandbox-4:last", "today", "two\nlines", "\x1b[2J\x1b]0;x\x07", "\r\n\t\0",
    "\u202egnp", "\udcff\udcfe", "e\u0301" * 50, "x" * 5000, "../../etc", "-y", "--all", "'\"`$(id)", " ", "\u2028", "safety", "claude",
)
NUMBERS = (0, 1, -1, 7, 1 << 31, -(1 << 31), 1 << 40, 1_700_000_000_000_000_000, MOST, -MOST - 1, MOST - 1)
SEQUENCE = (0, 1, 2, 3, 5, 5, 5, 1 << 32, (1 << 63) + 1, (1 << 64) - 1)
NAMES = ("sandbox-4", "laptop", "remote", "after", "remote:", "a/b/c", "sandbox-4/shop", "", "x" * 255, "last", "..", "-n", "@1", "today", "é ü", "liar")


class Liar:
    """Makes chains. `ids`, `trees`, `domains`, `keys`, `sessions` are those of others."""

    def __init__(self, some, url, *, ids, trees, domains, keys, sessions, chains):
        """`some` is a random.Random."""
        self.some, self.url = some, url
        self.ids, self.trees, self.domains, self.keys, self.sessions, self.chains = ids, trees, domains, keys, sessions, chains
        self._own = []

    def put_chain(self):
        """Put a chain of one or two pieces. Returns the ids that it makes up."""
        some, objects, keys, before = self.some, Objects(self.url), keys_of(self.url), FIRST
        chain, self._own = some.randbytes(16).hex(), []
        for number in range(1, some.choice((2, 2, 3))):
            builder = PieceBuilder(keys)
            for use, data in ((CONTENT, DATA), (CONTENT, PLANTED), (CONTAINER, GOOD), (CONTAINER, OTHER), (CONTAINER, DOMAIN)):
                if some.random() < 0.95:
                    builder.add(digests.of(data), use, data)
            builder.add_records([self.record() for _ in range(some.randrange(1, 9))])
            name = piece_name(chain, number)
            end = some.choice((0,) * 30 + (1, 2, 3))
            rolled_up = some.choice((b"",) * 20 + (some.randbytes(32),))
            data, before = builder.finish(name, before, some.randbytes(16), self.one_of(NAMES), rolled_up, end)
            assert objects.put_new(name, data)

    def one_of(self, values):
        return self.some.choice(tuple(values))

    def text(self):
        return self.one_of(TEXTS) if self.some.random() < 0.8 else self.identity()

    def number(self):
        return self.one_of(NUMBERS)

    def identity(self):
        """Mostly ids of others and own ones."""
        kind = self.some.random()
        if kind < 0.35:
            return self.one_of(self.ids)
        if kind < 0.55 and self._own:
            return self.one_of(self._own)
        if kind < 0.9:
            self._own.append("c" + self.some.randbytes(7).hex())
            return self._own[-1]
        return self.one_of(("", "abc", "c" * 64, "c" * 65, "C0FFEE00", "../../x", "c\n12345", "c\x1b[2J", "é" * 8, "\udcff" * 8, "c" * 5000))

    def key(self):
        kind = self.some.random()
        if kind < 0.4:
            return self.one_of(self.keys)
        return key_here(self.one_of(self.chains), self.some.randbytes(16)) if kind < 0.5 else self.one_of((bytes(16), bytes(range(16)), self.some.randbytes(16)))

    def session(self):
        return self.one_of((*self.sessions, "session-of-a-liar", self.text()))

    def cursor(self):
        if self.some.random() < 0.5:
            return b""
        if self.some.random() < 0.1:
            return self.some.randbytes(20)
        path = self.one_of((b"/etc/passwd", b"", b"../x", b"/home/user/.claude/projects/x/y.jsonl", b"\xff\0"))
        return cursors.encode(cursors.Cursor(self.text(), self.session(), path, self.text(), self.text(), "", "", "", self.number()))

    def checkpoint(self):
        some, text, number = self.some, self.text, self.number
        transcript = None
        if some.random() < 0.3:
            digest = self.one_of((digests.of(DATA), digests.of(GOOD), some.randbytes(32)))
            transcript = Entry(FILE, some.randrange(0o7777), self.one_of((0, 7, 1 << 50)), number(), digest)
        more = Circumstances()
        if some.random() < 0.6:
            machine = self.one_of(("",) * 6 + NAMES)
            meta = tuple((text(), text()) for _ in range(some.randrange(3)))
            more = Circumstances(
                self.identity(), text(), text(), number(), number(), self.one_of((None, True, False)), number(), text(), text(), self.one_of((text(), "restore", "revert", "take")),
                self.identity(), text(), self.session(), machine, meta, "", self.one_of(("", "a1", "a2", text())), text(), text(), self.one_of(("", "../x", "a\0/etc/passwd", text())),
            )  # fmt: skip
        domain = self.one_of((digests.of(DOMAIN), digests.of(DOMAIN), digests.of(GOOD), *self.domains))
        tree = self.one_of((digests.of(GOOD), digests.of(GOOD), digests.of(OTHER), digests.of(DATA), some.randbytes(32), *self.trees))
        return Checkpoint(
            0, self.identity(), number(), self.key(), self.one_of((b"/home/user/shop", b"", b"/", b"/a/..", b"\xff\n", b"/x" * 3000)), self.identity(),
            self.one_of((*checkpoints.TRIGGERS, "weird", "", "prompt")), text(), text(), self.one_of(("claude", "codex", "run", "", text())), self.session(), tree, domain,
            number(), number(), Counts(number(), number(), number()), number(), self.one_of((0, 0, 1, 2, 4, 8, 16, 31, MOST, -1)), self.cursor(), transcript, number(), more,
        )  # fmt: skip

    def record(self):
        """One record: its kind, its sequence number, its payload."""
        kind = self.some.random()
        if kind < 0.5:
            found = ledger.CHECKPOINT, checkpoints.encode(self.checkpoint())
        elif kind < 0.7:
            found = self.one_of(tuple(ledger.MARKS)), undo_history.encode_mark(undo_history.Mark(self.identity(), self.text()))
        elif kind < 0.8:
            paths = (b"/etc/passwd", b"", b"/home/user/x.jsonl")
            rewind = rewind_record.Rewind(
                self.number(), self.key(), self.text(), self.one_of(("fork", "in_place", "weird")), self.session(), self.session(), self.one_of(paths),
                self.one_of(paths), self.identity(), self.one_of(("", "-", self.identity())),
            )  # fmt: skip
            found = ledger.SESSION, rewind_record.encode(rewind)
        elif kind < 0.88:
            found = ledger.ADOPT, undo_history.encode_adoption(undo_history.Adoption(self.key(), self.key(), self.one_of((b"/x", b"", b"\xff"))))
        elif kind < 0.92:
            found = ledger.FORGET, undo_history.encode_forgotten(self.ids)
        elif kind < 0.96:
            operation = undo_history.Operation(self.one_of(("restore", "undo", "redo", "abort")), self.number(), self.key(), self.identity(), self.identity(), self.some.randbytes(32), "")
            found = self.one_of(tuple(ledger.OPERATIONS)), undo_history.encode_operation(operation)
        else:
            found = self.one_of((ledger.HISTORY, 0, 13, 99, 255)), self.some.randbytes(self.some.randrange(60))
        payload = bytearray(found[1])
        if payload and self.some.random() < 0.15:  # as a record of another version, or none
            at = self.some.randrange(len(payload))
            payload[at : at + self.some.randrange(3)] = self.some.randbytes(self.some.randrange(4))
        return found[0], self.one_of(SEQUENCE), bytes(payload)
