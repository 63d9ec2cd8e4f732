"""The helpers (casrewind watch) that hooks have started."""

import os
import signal
import subprocess

from casrewind import launch


class Helper:
    """A helper of the client's project."""

    def __init__(self, client, *arguments):
        self.client = client
        words = [*launch.own_command(), "-C", str(client.root), "watch", *arguments]
        self.process = subprocess.Popen(words, env=client.casrewind.environment, stderr=subprocess.PIPE, cwd="/")
        self.said = self.process.stderr.readline().decode()

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        said = self.process.stderr.read().decode()
        self.process.stderr.close()
        return self.process.wait(60), said


def helpers(root):
    """The processes of those of a root, without their forks. A dead one that nobody has waited for is none."""
    found, root = {}, os.fsencode(os.path.realpath(root))
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")[:-1]
            if words[-4:] == [b"-C", root, b"watch", b"--auto"]:
                with open(f"/proc/{name}/stat") as file:
                    found[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    return [pid for pid, parent in found.items() if parent not in found]


def end_all(*found):
    """Kill helpers, stopped ones too."""
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def children():
    """The processes that this one has forked, whatever has become of them, and not waited for."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found.update(map(int, file.read().split()))
    return found
