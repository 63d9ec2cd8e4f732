"""casrewind verify."""

from ... import errors, fsio
from ...ops.verify import STORE, Problem, Verified
from ...typed import Any
from .. import json_output
from ..output import as_json, note, plural, say
from . import OK, Done


def verify(workspace: Any, options: Any, done: Done) -> int:
    """casrewind verify."""
    found = workspace.repair() if options.repair else workspace.verify(quick=options.quick)
    done()
    return _report(found, options)


def verify_unopened(error: errors.StoreDamaged, options: Any) -> int:
    """casrewind verify of a store that is too damaged to be opened."""
    return _report(Verified((Problem(STORE, "FORMAT", str(error)),), 0, 0), options)


def _report(found: Verified, options: Any) -> int:
    if options.json:
        as_json(_shape(found))
    else:
        _show(found, quick=options.quick)
    for line in found.notes:
        note(line)
    return errors.StoreDamaged.exit_code if found.problems else OK


def _show(found: Verified, *, quick: bool) -> None:
    for line in found.repaired:
        say(f"repaired: {fsio.show(line)}")
    if not found.problems:
        how = "found in place" if quick else "read and checked"
        say(f"sound: {plural(found.checkpoints, 'checkpoint')}, {plural(found.blobs, 'blob')} {how}")
        return
    say(f"DAMAGED: {plural(len(found.problems), 'problem')} in {plural(found.checkpoints, 'checkpoint')}")
    for problem in found.problems:
        say(f"  {problem.kind} {problem.id[:16]}: {fsio.show(problem.detail)}")
    if any(problem.affects for problem in found.problems):
        say("  --json names every checkpoint and path that is affected")
    say("  what is not named here can still be restored: casrewind restore REF --skip-damaged, or restore REF -- PATH")
    if not found.repaired:
        say("  casrewind verify --repair mends what can be mended")
    say("  casrewind save stores again what the project still holds, and so mends older checkpoints that miss it")


def _shape(found: Verified) -> json_output.Shape:
    return {
        "ok": not found.problems,
        "problems": [
            {
                "kind": problem.kind,
                "id": problem.id,
                "detail": problem.detail,
                "affects": [{"checkpoint": place.checkpoint, **json_output.path(place.path)} for place in problem.affects],
            }
            for problem in found.problems
        ],
        "blobs": found.blobs,
        "checkpoints": found.checkpoints,
        "repaired": list(found.repaired),
    }
