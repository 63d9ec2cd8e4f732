"""Lines of kinds that no client has written yet, planted into recorded transcripts: with and without ids, between lines and beside them."""

import json

PARENTS = {"claude": "parentUuid", "pi": "parentId", "droid": "parentId", "copilot": "parentId"}
"""{client: the member of a line that names the line before it}."""
IDS = {"claude": ("uuid",), "codex": ("payload", "id")}
"""{client: the keys of a line's id, if they are others than ("id",)}."""
_NEW = "of-next-year"
WITHOUT_ID = [b'{"type":"of-next-year", "b":1,"a" :[ ]}\n', b"\x00\x00\xff not json\n", b"\n", b'["list"]\n', b'{"type":"user"\n', b'{"uuid":7}\r\n']
KINDS = {
    "claude": {
        "progress": lambda name, parent: {"parentUuid": parent, "isSidechain": False, "type": "progress", "data": {"type": "hook_progress"}, "uuid": name},
        "sidechain": lambda name, parent: {"parentUuid": parent, "isSidechain": True, "type": _NEW, "uuid": name},
        "said": lambda name, parent: {"type": _NEW, "uuid": name, "parentUuid": parent, "promptId": "p-new", "origin": {"kind": "human"}},
        "no parent": lambda name, parent: {"type": _NEW, "uuid": name},
    },
    "droid": {
        "other": lambda name, parent: {"type": _NEW, "id": name, "parentId": parent},
        "other role": lambda name, parent: {"type": "message", "id": name, "parentId": parent, "message": {"role": _NEW, "content": "said"}},
    },
    "pi": {
        "other": lambda name, parent: {"type": _NEW, "id": name, "parentId": parent},
        "other role": lambda name, parent: {"type": "message", "id": name, "parentId": parent, "message": {"role": _NEW, "content": "said"}},
        "no parent": lambda name, parent: {"type": _NEW, "id": name},
    },
    "codex": {
        "other": lambda name, parent: {"type": _NEW, "payload": {"id": name, "turn_id": "t-new"}},
        "item": lambda name, parent: {"type": "response_item", "payload": {"type": _NEW, "id": name, "content": [{"type": "text", "text": "said"}]}},
    },
    "gemini": {"other": lambda name, parent: {"id": name, "type": _NEW, "content": [{"text": "said"}]}},
    "copilot": {"other": lambda name, parent: {"type": _NEW, "id": name, "parentId": parent, "data": {"content": "said"}}},
    "opencode": {
        "other role": lambda name, parent: {"type": "message", "id": name, "info": {"id": name, "role": _NEW}, "parts": [{"type": "text", "text": "said"}]},
    },
}  # fmt: skip
"""{client: {what it is: a line with an id and a parent}}."""


def varieties(agent):
    """Each way to plant: "bare" lines have no id; others stand beside the conversation, or between a line and its parent."""
    aside = [(kind, "aside") for kind in KINDS[agent]]
    between = [(kind, "between") for kind in KINDS[agent] if agent in PARENTS and kind not in ("sidechain", "no parent")]
    return [("bare", ""), *aside, *between, *([("root", "aside")] if agent in PARENTS else [])]


class Planted:
    """A transcript with unknown lines in front of the lines with these numbers (one more than there are: at the end)."""

    def __init__(self, agent, data, variety, places):
        kind, way = variety
        self._parent, self._path = PARENTS.get(agent, ""), IDS.get(agent, ("id",))
        self._renamed, self._lines, self.new = {}, [], set()
        rows, wanted = data.splitlines(keepends=True), set(places)
        links = {}  # {a line: the one that was put between it and its children}
        before = None
        for at in range(len(rows) + 1):
            following = json.loads(rows[at]) if at < len(rows) else {}
            if at in wanted:
                name = f"msg_{at:012x}new" if agent == "opencode" else f"planted-{at}"
                above = links.get(following.get(self._parent), following.get(self._parent)) if way == "between" else before
                self._add_new(kind, KINDS[agent].get(kind), at, name, None if kind == "root" else above, agent)
                if way == "between" and following.get(self._parent):
                    links[following[self._parent]] = name
            if at == len(rows):
                break
            before = self._id_of(following) or before
            self._add(rows[at], following, links)
        self.data = b"".join(self._lines)

    def _add_new(self, kind, make, at, name, parent, agent):
        make = make or next(iter(KINDS[agent].values()))
        line = WITHOUT_ID[at % len(WITHOUT_ID)] if kind == "bare" else json.dumps(make(name, parent)).encode() + b"\n"
        self.new.add(line)
        self._lines.append(line)

    def _add(self, row, value, links):
        parent = value.get(self._parent) if self._parent else None
        if parent in links:
            changed = json.dumps({**value, self._parent: links[parent]}).encode() + b"\n"
            self._renamed[changed], row = row, changed
        self._lines.append(row)

    def _id_of(self, value):
        for key in self._path:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, str) else None

    def plain(self, data):
        """A part of it as it is without what was planted; None stays None."""
        if data is None:
            return None
        return b"".join(self._renamed.get(line, line) for line in data.splitlines(keepends=True) if line not in self.new)

    def ends_new(self, data):
        """True if a part of it ends with a planted line."""
        return bool(data) and data.splitlines(keepends=True)[-1] in self.new

    def end_of(self, count):
        """The position behind the first `count` lines of the original, and what is planted behind them."""
        end = seen = 0
        for line in self._lines:
            if line not in self.new:
                seen += 1
            if seen > count:
                return end
            end += len(line)
        return end
