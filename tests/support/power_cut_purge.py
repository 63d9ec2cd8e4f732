"""The power is cut under a purge: all else is there, the secret is gone once that was said, all of it or nothing before."""

import os
import shutil

from support.command import Command
from support.command_in_process import InProcess
from support.picture import differences, picture
from support.power_cut_stories import Casrewind, noise
from support.trees import plant

SECRETS = {b"secret.bin": noise(11, 700), b"sub/other.bin": noise(12, 900)}
"""Noise does not get smaller by compression: it is stored as it is, and a raw scan finds it."""
COPY = b"sub/copy.bin"


class Purged(Casrewind):
    def tell(self, teller):
        self.teller, self.root, self.home, self.known = teller, f"{teller.point}/w", f"{teller.point}/h", set()
        self.command = Command(self.root, self.home)
        (first, one), (second, other) = SECRETS.items()
        plant(self.root, {"a.txt": b"a\n", first: one, COPY: one, "large.bin": noise(13, 1_500_000)})
        for number in range(3):
            self._edit({"a.txt": b"%d\n" % number, f"file-{number}": b"%d" % number * 50})
            self._save(f"save {number + 1} with a secret", "-m", f"the secret, save {number}")
        self._purge(first, [first, COPY])
        self._edit({second: other, "more.txt": b"more\n"})
        self._save("save with another secret")
        self._purge(second, [second])
        self._edit({"last.txt": b"last\n"})
        self._save("save after purges")

    def _purge(self, path, going):
        """Take the secret out of the project, then out of the store."""
        assert self._found(SECRETS[path]), "the raw scan does not see the secret"
        self.teller.tree(None)
        for name in going:
            os.unlink(os.path.join(os.fsencode(self.root), name))
        self._save(f"save without {os.fsdecode(path)}")
        self.teller.step("purge", lambda: self.command("purge", os.fsdecode(path), "--yes", code=0), secret=path, purges=going)

    def _found(self, secret):
        """The files of the store that have the beginning of a secret in them."""
        found = []
        for place, _, names in os.walk(f"{self.home}/data"):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    found += [name] if secret[:32] in file.read() else []
        return found

    # -- the judge

    def judge(self, told, cut, point, scratch):
        self.root, self.home = f"{point}/w", f"{point}/h"
        self.command = (Command if cut.number % 16 == 0 else InProcess)(self.root, self.home)
        ended = [told["steps"][number] for number in cut.ended]
        flying = next((told["steps"][number] for number in cut.begun if number not in cut.ended), {})
        seen = ["in a step" if flying else "behind a step"]
        must, may, holds = self._expected(ended, flying)
        got = self.command("list", "--all", "--json")
        if got.code == 10 and not ended:
            self._life_goes_on()
            return [*seen, "no store yet"]
        assert got.code == 0, got
        listed = {entry["id"] for entry in got.json["checkpoints"]}
        assert must <= listed <= must | may, (must - listed, listed - must - may)
        self._verify()
        gone = {path for step in ended for path in step.get("purges", ())}
        if "purges" in flying:  # all of it or nothing, and what was begun is finished by gc
            states = {self._holds(identity, holds[identity], gone, set(flying["purges"]), scratch) for identity in listed}
            assert len(states - {None}) == 1, states
            seen.append("purged" if True in states else "not purged")
            self.command("gc", code=0)
            again = {self._holds(identity, holds[identity], gone, set(flying["purges"]), scratch) for identity in listed}
            assert again == states, (states, again)
            if True in states:
                assert not self._found(SECRETS[flying["secret"]])
        else:
            for identity in listed:
                self._holds(identity, holds[identity], gone, set(), scratch)
        for step in ended:
            if "secret" in step:
                assert not self._found(SECRETS[step["secret"]]), self._found(SECRETS[step["secret"]])
        self._life_goes_on()
        return seen

    def _holds(self, identity, held, gone, going, directory):
        """Whether a checkpoint has lost the paths that are `going` (None: it never had them); all else it has to have."""
        shutil.rmtree(directory, ignore_errors=True)
        done = self.command("restore", identity, "--to", directory)
        there = picture(directory, mtimes=True)
        expected = {path: what for path, what in held.items() if path not in gone}
        less = {path: what for path, what in expected.items() if path not in going}
        assert done.code == (3 if there.keys() < held.keys() else 0), done
        assert there in (expected, less), (identity, differences(there, expected))
        return None if expected == less else there == less
