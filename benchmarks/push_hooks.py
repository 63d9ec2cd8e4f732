"""python -m benchmarks.push_hooks [TREE]: what a hook costs with automatic push on, beside the same hook with it off.

Whole processes, as in benchmarks.hooks. In each round every way to push comes once, in changing order: off, a server that answers
(moto on loopback), a closed port, a server whose every answer comes after two seconds, and one that never answers. Each way has a
turn of four hooks: a prompt, the turn's end, the next prompt, while what the end has started runs, and the session's end.
"""

import argparse
import json
import os
import random
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

from . import trees
from .checked_options import refuse_missing_tree, refuse_too_few
from .compare import contenders, measure
from .hooks import Client
from .scratch import USAGE, in_scratch

OFF, HANGS = "off", "a server that hangs"
EVENTS = {
    "prompt": "UserPromptSubmit.prompt", "turn end": "Stop.plain", "prompt while it pushes": "UserPromptSubmit.prompt",
    "session end": "SessionEnd.other",
}  # fmt: skip
SLOW = 2.0
TRANSCRIPT = 190_000
PATIENCE = 60


def options(argv):
    """The options in `argv`, checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.push_hooks", description="What a hook that pushes costs.", allow_abbrev=False)
    parser.error = lambda message: parser.exit(USAGE, f"push_hooks: {message}\n")
    parser.add_argument("tree", metavar="TREE", nargs="?", help="measure on a copy of this directory; else one is generated")
    parser.add_argument("--files", metavar="N", type=int, default=1000, help="files of the generated tree (1000)")
    parser.add_argument("--rounds", metavar="N", type=int, default=40, help="rounds (40)")
    parser.add_argument("--json", metavar="FILE", help="write every sample")
    given = parser.parse_args(argv)
    refuse_too_few(parser, given, files=1, rounds=1)
    refuse_missing_tree(parser, given)
    return given


def main(argv=None):
    """Measure, print a table; the exit code."""
    given = options(argv)
    sys.path.append(os.path.join(contenders.TOP, "tests"))
    return in_scratch("push_hooks", _measure, given)


def _measure(given, scratch):
    from support.held_proxy import HeldProxy
    from support.s3_server import S3Server

    project = os.path.join(scratch, "project")
    trees.copy(trees.given_or_generated(given.tree, scratch, given.files), project)
    with ExitStack() as stack:
        server = stack.enter_context(S3Server())
        closed = stack.enter_context(socket.socket())  # bound, and nobody listens there
        closed.bind(("127.0.0.1", 0))
        ways = {
            OFF: server.endpoint, "a server that answers": server.endpoint, "a closed port": f"http://127.0.0.1:{closed.getsockname()[1]}",
            "each answer after 2 s": stack.enter_context(HeldProxy(server.endpoint, after=SLOW)).endpoint,
            HANGS: stack.enter_context(HeldProxy(server.endpoint)).endpoint,
        }  # fmt: skip
        client = Client(project, scratch)
        client.environ |= {**server.variables, "CASREWIND_REMOTE_KEY": f"crk1-{secrets.token_hex(32)}", "CASREWIND_REMOTE_INTERVAL": "0s"}
        place = os.path.join(client.environ["HOME"], ".config", "casrewind")
        os.makedirs(place)
        with open(os.path.join(place, "config.toml"), "w", encoding="utf-8") as file:
            file.write("[remote]\nfrom_environment = true\n")
        for words in (("remote", "add", server.bucket()), ("push",)):
            measure.run([*contenders.casrewind_command(), *words], project, client.environ)
        samples = _rounds(client, project, ways, given.rounds)
    files, size = trees.count(project)
    print(f"{files:,} files, {size / 1e6:.1f} MB, one edit before each hook; {given.rounds} rounds", "", *table(samples), sep="\n")
    if given.json is not None:
        record = {"kind": "push_hooks", "format": 1, "files": files, "samples": samples}
        with open(given.json, "w", encoding="utf-8") as file:
            file.write(json.dumps(record, indent=1) + "\n")
    return 0


def _rounds(client, project, ways, rounds):
    """{event: {way: [(seconds, processor seconds) of each round]}}. The first round is not measured."""
    hooks = {event: client.hook(name, TRANSCRIPT, 0) for event, name in EVENTS.items()}
    samples = {event: {way: [] for way in ways} for event in EVENTS}
    edited = [os.path.relpath(os.path.join(at, name), project) for at, _, names in os.walk(project) for name in names][:1]
    number = 0
    for step in range(rounds + 1):
        for way in random.Random(step).sample(list(ways), len(ways)):
            setting = {"CASREWIND_REMOTE_PUSH": OFF if way == OFF else "turns", "AWS_ENDPOINT_URL": ways[way]}
            before = client.checkpoints()
            for event, prepare in hooks.items():
                trees.edit(project, edited, number := number + 1)
                command, environ, payload = prepare()
                done = measure.run(command, "/", {**environ, **setting}, given=payload)
                if done.out:
                    raise measure.Failed(f"{event}, {way}: a hook said something: {done.out[:200]}")
                if step:
                    samples[event][way].append((done.seconds, done.processor))
            _end_pushes(project, kill=way == HANGS)
            if client.checkpoints() - before != len(hooks):
                raise measure.Failed(f"{way}: {client.checkpoints() - before} checkpoints were made by {len(hooks)} hooks")
    return samples


def _end_pushes(project, *, kill):
    """Wait until the pushes that hooks have started have ended. With `kill`, end them: their server never answers."""
    end = time.monotonic() + PATIENCE
    while found := subprocess.run(["pgrep", "-f", "--", f"-C {project} push --auto"], capture_output=True, text=True, check=False).stdout.split():
        if time.monotonic() > end:
            raise measure.Failed(f"a push goes on after {PATIENCE} s")
        for pid in found if kill else ():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.02)


def table(samples):
    """The lines of a table for people, in Markdown: medians, and the medians of the ratios within a round."""
    yield "| hook | push | wall time | processor time | beside off: wall | beside off: processor |"
    yield "|---|---|---|---|---|---|"
    for event, ways in samples.items():
        for way, found in ways.items():
            seconds, processor = (statistics.median(one[kind] for one in found) for kind in (0, 1))
            beside = (statistics.median(one[kind] / off[kind] for one, off in zip(found, ways[OFF], strict=True)) for kind in (0, 1))
            yield f"| {event} | {way} | {seconds * 1e3:.0f} ms | {processor * 1e3:.0f} ms | {' | '.join(f'{ratio:.2f}' for ratio in beside)} |"


if __name__ == "__main__":
    sys.exit(main())
