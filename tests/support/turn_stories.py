"""Stories of sessions, people and restores as records of the turn view, made without a store or a client."""

import random

from casrewind.model.turn_records import PastOperation, Point

SESSIONS = (("claude", "A", True), ("claude", "B", True), ("droid", "D", False))
PATHS = [f"f{number}" for number in range(6)]


class Story:
    """Records that grow event by event. Every write has content of its own, so a content tells which step wrote it."""

    weights = (10, 10, 3, 3, 2, 2, 3, 2, 2, 1, 2, 2, 3, 1, 1, 1)
    """How often each kind of event comes (see `step`)."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.records, self.trees, self.plans, self.files = [], {}, {}, {}
        self.states = []  # one for each point: the files behind it, operations included
        self.ids = {session: "" for session in SESSIONS}
        self.counter = 0
        self.put_back = set()  # (path, content) that an operation wrote

    def session(self):
        """The session of the next event."""
        return self.random.choice(SESSIONS)

    def fresh(self):
        self.counter += 1
        return self.counter

    def edit(self, most=2):
        for path in self.random.sample(PATHS, self.random.randint(0, most)):
            if path in self.files and self.random.random() < 0.3:
                del self.files[path]
            else:
                self.files[path] = f"{path}:{self.fresh()}"

    def point(self, trigger, session=("", "", True), turn_id="", **more):
        number = len(self.states)
        tree = f"tree{number}".encode()
        self.trees[tree] = dict(self.files)
        parent = f"c{number - 1}" if number else ""
        made = Point(number, f"c{number}", number, parent, trigger, tree, agent=session[0], session=session[1], turn_id=turn_id,
                     has_turn_ids=session[2], files=len(self.files), **more)  # fmt: skip
        self.records.append(made)
        self.states.append(dict(self.files))
        return made

    def operate(self, by=("", "", True), known=True):
        if not self.states:
            return
        made = self.point("safety", by if by[0] else ("", "", True), op="restore", target=f"c{self.random.randrange(len(self.states))}")
        before, wrote = dict(self.files), {}
        for path in self.random.sample(PATHS, 2):
            old = self.states[self.random.randrange(len(self.states))].get(path)
            if old != before.get(path):
                wrote[path] = old
        self.put_back |= set(wrote.items())
        for path, content in wrote.items():
            if content is None:
                self.files.pop(path, None)
            else:
                self.files[path] = content
        if known:
            plan = f"plan{len(self.states)}".encode()
            self.plans[plan] = (before, wrote)
            self.records.append(PastOperation("restore", made.created_ns, made.target, made.id, plan, by[0], by[1]))
            self.states[-1] = dict(self.files)

    def step(self):
        """One more event, the files changed before it by whoever was at work."""
        if self.random.random() < 0.6:
            self.edit()
        session = self.session()
        has_ids = session[2]
        kind = self.random.choices(
            ("prompt", "end", "waiting", "new end", "notified", "helper", "tool", "start", "exit", "compact", "save", "label", "restore",
             "own restore", "own save", "loose"),
            self.weights,
        )[0]  # fmt: skip
        now = self.ids[session]
        if kind == "prompt":
            self.ids[session] = f"t{self.fresh()}" if has_ids else ""
            self.point("prompt", session, self.ids[session], prompt=f"prompt {self.fresh()}")
        elif kind == "waiting" and has_ids and now:
            self.point("prompt", session, now, prompt=f"waiting {self.fresh()}")
        elif kind == "end" and (now or not has_ids):
            self.point("turn_end", session, now)
        elif kind == "new end" and has_ids:
            self.point("turn_end", session, f"t{self.fresh()}")
        elif kind == "notified" and has_ids:
            self.point("turn_end", session, "")
        elif kind == "helper" and now:
            self.point("turn_end", session, now, of_subagent=True)
        elif kind == "tool":
            self.point("tool_batch", session, now)
        elif kind == "start":
            self.point("session_start", session)
        elif kind == "exit":
            self.point("session_end", session, f"t{self.fresh()}" if has_ids else "")
        elif kind == "compact":
            self.point("compact", session, now)
        elif kind in ("save", "label"):
            self.point("manual", label="kept" if kind == "label" else "")
        elif kind == "own save":
            self.point("manual", session)
        elif kind in ("restore", "own restore", "loose"):
            self.operate(session if kind == "own restore" else ("", "", True), known=kind != "loose")

    def points(self):
        return [record for record in self.records if isinstance(record, Point)]
