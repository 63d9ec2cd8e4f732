"""A project on another machine, and its checkpoints in a store here as a pull leaves them: with their blobs and marks."""

from casrewind.model import checkpoint as checkpoints
from casrewind.model import digest as digests
from casrewind.model import undo_history
from casrewind.store import ledger, packs
from casrewind.store.reachability import reference_of_file, references
from casrewind.workspace import Settings, Workspace
from support.agent_turns import AgentTurns
from support.trees import plant


class PulledMachine:
    """A machine with a home, a project and a store of its own in `place`, and a session of an agent."""

    def __init__(self, place, name="sandbox-4", session="724e887c-8b5c-4165-b4fb-0279e9258e69"):
        self.name, self.root, self.home = name, place / name / "work" / "shop", place / name / "home"
        self.root.mkdir(parents=True)
        self.home.mkdir()
        self.settings = Settings(home=str(self.home), data=str(self.home / "data"), environ={"HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"})
        self.workspace, self.session = None, session
        self.chain = digests.of(name.encode())[:16]
        self.open()

    def open(self):
        """Open the project, or open it anew: git's files and the settings are read then."""
        if self.workspace is not None:
            self.workspace.close()
        self.workspace = Workspace(str(self.root), self.settings, create=True)
        self.agent = AgentTurns(self.workspace, self.root, self.session)

    def turn(self, prompt_id, prompt, tree, *, ends=True):
        """A turn of the agent that writes files."""
        self.agent.prompt(prompt_id, prompt)
        plant(self.root, tree)
        if ends:
            self.agent.stop(prompt_id)

    def pull_into(self, here):
        """Put what is new into the store of the open workspace `here`. Returns these checkpoints, oldest first."""
        theirs, ours = self.workspace._context.store, here._context.store
        new = [pair for pair in reversed(theirs.checkpoints()) if ours.checkpoint(pair[0].id) is None]
        with ours.writing() as writer:
            for kind, digest in self._needed([point for point, _ in new]):
                assert writer.put(kind, theirs.read(digest, kind)) == digest
            ours.add_blobs(writer)
        for point, marked in new:
            key = digests.of(self.chain + point.worktree)[:16]
            pulled = point._replace(worktree=key, more=point.more._replace(machine=self.name))
            ours.append(ledger.CHECKPOINT, checkpoints.encode(pulled))
            if marked.label:
                ours.append(ledger.LABEL, undo_history.encode_mark(undo_history.Mark(point.id, marked.label)))
            if marked.pinned:
                ours.append(ledger.PIN, undo_history.encode_mark(undo_history.Mark(point.id, "")))
        return [ours.checkpoint(point.id) for point, _ in new]

    def _needed(self, points):
        """(kind, digest) of every blob that these checkpoints need."""
        found = dict.fromkeys([(packs.TREE, point.tree) for point in points] + [(packs.DOMAIN, point.domain) for point in points])
        contents = (reference_of_file(point.transcript) for point in points if point.transcript is not None)
        found |= dict.fromkeys((one.kind, one.digest) for one in contents)
        waiting = list(found)
        while waiting:
            kind, digest = waiting.pop()
            for below in references(kind, self.workspace._context.store.read(digest, kind)):
                if (below.kind, below.digest) not in found:
                    found[below.kind, below.digest] = None
                    waiting.append((below.kind, below.digest))
        return found
