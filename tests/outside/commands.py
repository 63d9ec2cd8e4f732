"""Commands of a person or a client, and what must be true after each."""

import base64
import glob
import json
import os
import shutil
import subprocess
import time

from plain import Plan, below, look, taken_back
from walk import PATIENCE, PAYLOADS, Difference

KEPT_STEPS = 20


def save(project, chance):
    state = project.state()
    code, found, err = project.call("save", "--json")
    project.saved(state, found, code, err)


def save_labelled(project, chance):
    state = project.state()
    words = ["--pin"] if chance.random() < 0.4 else []
    code, found, err = project.call("save", "--json", "-m", f"label {len(project.order)}", *words)
    if not found.get("created"):
        raise Difference("save -m made no checkpoint")
    project.saved(state, found, code, err)
    project.pinned.add(found["checkpoint"])


def run(project, chance):
    before = project.state()
    script = "echo run >> made-by-run; exit 7" if chance.random() < 0.5 else "exit 0"
    wanted = 7 if "7" in script else 0
    there = look(project.root).get(b"made-by-run")
    if there is not None and (there.kind != "file" or there.flags):
        return
    if any(thing.flags for path, thing in before.now.items()) and wanted == 7:
        script, wanted = "exit 0", 0
    code, _, err = project.call("run", "--", "sh", "-c", f"cd '{project.root}' && {script}", codes={wanted, 3} if wanted == 0 else {wanted})
    after = project.state()
    found = project.call("list", "--json", "-n", "2", codes={0})[1]["checkpoints"]
    if found[0]["id"] not in project.points:
        project.remember(found[0]["id"], after)
    if len(found) > 1 and found[1]["id"] not in project.points:
        project.remember(found[1]["id"], before)


def hook(project, chance):
    """By the line that install wrote, with a payload that a client once sent; nothing may be said, and a checkpoint comes."""
    name = chance.choice(("UserPromptSubmit.prompt", "Stop.plain"))
    with open(f"{PAYLOADS}/{name}.json") as file:
        payload = json.load(file)["stdin"]
    payload |= {"cwd": project.root, "transcript_path": f"{project.home}/.claude/projects/p/s.jsonl", "session_id": "s"}
    state, newest = project.state(), project.newest()
    around = project._around()
    done = subprocess.run(
        ["sh", "-c", project.hook_line], input=json.dumps(payload).encode(), capture_output=True, cwd="/", timeout=PATIENCE,
        env={**project.environment, "CLAUDE_PROJECT_DIR": project.root},
    )  # fmt: skip
    project.say(f"$ hook {name}  -> {done.returncode}")
    if (done.returncode, done.stdout, done.stderr) != (0, b"", b""):
        raise Difference(f"the hook ended with {done}")
    project._compare_around(around, "hook")
    end = time.monotonic() + 60
    while (made := project.newest()) == newest:  # on a busy machine a child makes it
        if time.monotonic() > end:
            raise Difference(f"the hook of {name} made no checkpoint")
        time.sleep(0.2)
    project.remember(made, state)


def _choose(project, chance):
    order = [identity for identity in project.order if identity in project.points]
    return chance.choice(order[-6:]) if chance.random() < 0.7 else chance.choice(order)


def restore(project, chance, scope=(), *, only_say=False):
    identity = _choose(project, chance)
    present, target = project.state(), project.points[identity]
    plan = Plan(present, target, scope)
    words = ["restore", "--json", "-y", *(["--dry-run"] if only_say else []), identity, *(["--", *scope] if scope else [])]
    code, found, err = project.call(*words)
    seen = look(project.root)
    project.remember_safety(found, present, seen, target)
    if code == 14:
        if seen != present.now:
            raise Difference(f"a refused restore changed {_unlike(present.now, seen)}")
        if not (plan.must_refuse or plan.may_refuse):
            raise Difference(f"restore was refused, and the model knows no reason: {err}")
        return
    if code not in (0, 3):
        raise Difference(f"restore ended with {code}: {err}")
    if only_say:
        if seen != present.now:
            raise Difference(f"--dry-run changed {_unlike(present.now, seen)}")
        return
    if plan.must_refuse:
        raise Difference(f"restore went on in spite of {plan.must_refuse[:5]}")
    different = plan.differences(seen)
    if different:
        raise Difference(f"after restore of {identity}: {len(different)} differences, {different[:4]}; it said {json.dumps(found)[:1500]}")
    if found["restored"] or found["removed"]:
        project.done = [*project.done, (present.now, seen)][-KEPT_STEPS:]
        project.undone = []


def restore_paths(project, chance):
    identity = chance.getstate()  # the same choice again in `restore`
    target = project.points[_choose(project, chance)]
    chance.setstate(identity)
    known = sorted(target.holds.keys() | project.state().holds.keys())
    if known:
        picked = known[int(chance.random() * len(known))]
        chance.setstate(identity)
        restore(project, chance, (picked,))


def dry_run(project, chance):
    restore(project, chance, only_say=True)


def _unlike(one, other):
    return [(path, one.get(path), other.get(path)) for path in sorted(one.keys() | other.keys()) if one.get(path) != other.get(path)][:4]


def to(project, chance):
    """Into a directory outside: exactly what the checkpoint holds."""
    identity = _choose(project, chance)
    out = f"{project.place}/out"
    project.call("restore", identity, "--to", out, codes={0})
    holds, seen = project.points[identity].holds, look(out)
    different = [path for path in sorted(holds.keys() | seen.keys()) if path not in seen or path not in holds or seen[path].what != holds[path].what]
    different += [path for path in holds.keys() & seen.keys() if holds[path].kind == "file" and 0 <= holds[path].mtime < 1 << 63 and holds[path].mtime != seen[path].mtime]
    shutil.rmtree(out)
    if different:
        path = different[0]
        raise Difference(f"--to of {identity}: {len(different)} differences, {path!r} was {holds.get(path)}, is {seen.get(path)}")


def _back(project, word, steps, others):
    present = project.state()
    code, found, err = project.call(word, "--json", "--yes")
    seen = look(project.root)
    if code == 15:
        if seen != present.now:
            raise Difference(f"{word} ended with 15 and changed {_unlike(present.now, seen)}")
        if steps and project.is_sure:
            raise Difference(f"{word} has nothing to do, and the model has {len(steps)} steps: {err}")
        return
    if not steps:
        if project.is_sure:
            raise Difference(f"{word} did something, and the model has no step")
        project.done, project.undone = [], []
        return
    before, after = steps[-1] if word == "undo" else steps[-1][::-1]
    if code == 14:
        touched = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        if seen != present.now:
            raise Difference(f"a refused {word} changed {_unlike(present.now, seen)}")
        if not _may_refuse(present, touched):
            raise Difference(f"{word} was refused, and the model knows no reason: {err}")
        return
    if code not in (0, 3):
        raise Difference(f"{word} ended with {code}: {err}")
    named = {base64.b64decode(item["path_b64"]) if "path_b64" in item else item["path"].encode() for item in found["skipped"]}
    different = taken_back(before, after, present.now, seen, named)
    if different:
        raise Difference(f"after {word}: {len(different)} differences, {different[:4]}; it said {json.dumps(found)[:1500]}")
    if found["skipped"] and not found["restored"] and not found["removed"]:
        return  # all of it was left alone: the step is still there to be taken back
    steps.pop()
    others.append((seen, present.now) if word == "undo" else (present.now, seen))  # the next one takes back what this one did


def _may_refuse(present, touched):
    for path in touched:
        above = path.rpartition(b"/")[0]
        there = present.now.get(path)
        if below(path, present.blind) or (above in present.now and present.now[above].flags) or (there is not None and there.flags):
            return True
        if there is not None and (there.kind in ("other", "dir") or path not in present.holds):
            return True
    return False


def undo(project, chance):
    _back(project, "undo", project.done, project.undone)


def redo(project, chance):
    _back(project, "redo", project.undone, project.done)


def gc(project, chance):
    newest = project.newest()
    project.call("gc", "--max-count", str(chance.choice((3, 6))), "--json", codes={0})
    left = {point["id"] for point in project.call("list", "--json", "--all", codes={0})[1]["checkpoints"]}
    lost = [identity for identity in project.pinned if identity not in left]
    if lost:
        raise Difference(f"gc forgot {lost}, which have labels")
    if newest not in left:
        raise Difference("gc forgot the newest checkpoint")
    project.points = {identity: state for identity, state in project.points.items() if identity in left}
    project.order = [identity for identity in project.order if identity in left]


def pin(project, chance):
    identity = _choose(project, chance)
    if identity in project.pinned and chance.random() < 0.5:
        project.call("unpin", identity, codes={0})
        project.pinned.discard(identity)
    else:
        project.call("pin", identity, f"pinned {identity}", codes={0})
        project.pinned.add(identity)


def verify(project, chance):
    code, found, err = project.call("verify", "--json", codes={0})
    if not found["ok"]:
        raise Difference(f"verify: {found['problems'][:3]}")


def lose_index(project, chance):
    for path in glob.glob(f"{project.home}/.local/share/casrewind/stores/*/index"):
        shutil.rmtree(path)
    project.say("rm -r index")


def move(project, chance):
    """The project goes elsewhere, and its checkpoints go along when they are asked for."""
    from plain import mounts

    if mounts(project.root) or project.kind == "forged":
        return
    old, new = project.root, f"{project.place}/moved{len(project.order)}-{chance.randrange(1000)}"
    os.rename(old, new)
    project.root = new
    project.say(f"mv {old} {new}")
    project.call("adopt", old, codes={0})
    project.is_sure, project.done, project.undone = False, [], []


def end(project):
    """The store is sound, every checkpoint that the model knows is there and is what it was, and nobody else lost anything."""
    verify(project, None)
    listed = {point["id"] for point in project.call("list", "--json", "--all", codes={0})[1]["checkpoints"]}
    lost = [identity for identity in project.points if identity not in listed]
    if lost:
        raise Difference(f"{lost} are not listed any more")
    for identity in project.order[-2:]:
        project.call("show", "--json", identity, codes={0})
    if project.victim:
        points = project.call("list", "--json", root=project.victim, codes={0})[1]["checkpoints"]
        if [point["label"] for point in points] != ["theirs"]:
            raise Difference(f"another project's checkpoints are {points}")
