"""casrewind verify."""

import os

from ... import errors
from ..._typing import TYPE_CHECKING
from ...messages import plural, printable
from ...typed_commands import as_typed
from ...upkeep import verify
from ...upkeep.verify import STORE, Problem, Verified
from ..grammar.options import JSON, Command, Option, flag
from ..show import shapes
from ..show.shapes import Shape
from ..terminal.lines import note, print_json, print_line
from . import OK, Done

if TYPE_CHECKING:
    from ...context import Context
    from ..grammar.command_line import ParsedOptions

COMMAND = Command(
    examples=("casrewind verify --quick",),
    options=(
        flag("--quick", "check only the structure, and whether the content exists", group="how"),
        flag("--repair", "first repair what is possible, and set damaged files aside", group="how"),
        Option(("--proof",), "check this proof of casrewind attest instead; needs no store", "FILE", group="how"),
        Option(("--public-key",), "with --proof: the public key of the machine that made it", "FILE"),
        Option(("--expect",), "with --proof: a digest that you noted, which must be in it", "DIGEST"),
        Option(("directory_to_check",), "with --proof: compare these files with the list in the proof", "DIR", nargs="?"),
        JSON,
    ),
    stays=True,
)


def run(context: "Context", options: "ParsedOptions", done: Done) -> int:
    """casrewind verify."""
    found = verify.repair(context) if options.repair else verify.verify(context, quick=options.quick)
    done()
    return _report_verified(found, options)


def verify_proof(options: "ParsedOptions") -> int:
    """casrewind verify --proof, which opens no store."""
    from ...history import proof

    if not options.public_key:
        raise errors.UsageError("--proof needs --public-key FILE", "casrewind attest --key prints it, on the machine that made the proof")
    data, key = (_read_named_file(name, options, proof.MOST_PROOF) for name in (options.proof or "", options.public_key))
    directory = os.path.join(options.directory, options.directory_to_check) if options.directory_to_check else ""
    found = proof.check(data, key, options.expect or "", directory)
    if options.json:
        print_json({"ok": not found.problems, **found._asdict()})
        return errors.StoreDamaged.exit_code if found.problems else OK
    for problem in found.problems:
        print_line(f"NOT PROVEN: {printable(problem)}")
    if not found.problems:
        turns = f" of {plural(found.turns, 'turn')}" if found.turns else ""
        print_line(f"sound: {plural(found.statements, 'statement')}{turns}, the last one {found.anchor}")
    for line in found.notes:
        note(printable(line))
    return errors.StoreDamaged.exit_code if found.problems else OK


def _read_named_file(name: str, options: "ParsedOptions", most: int) -> bytes:
    try:
        with open(os.path.join(options.directory, name), "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise errors.UsageError(f"cannot read {printable(name)}: {error.strerror}") from error
    if len(data) > most:
        raise errors.UsageError(f"{printable(name)} has more than {most:,} bytes: it is no proof")
    return data


def verify_unopenable(error: errors.StoreDamaged, options: "ParsedOptions") -> int:
    """casrewind verify of a store with too much damage to open."""
    return _report_verified(Verified((Problem(STORE, "FORMAT", str(error)),), 0, 0), options)


def _report_verified(found: Verified, options: "ParsedOptions") -> int:
    """Print the report as text or JSON. Returns the exit code."""
    if options.json:
        print_json(_verified_json(found))
    else:
        _print_verified(found, quick=options.quick)
    for line in found.notes:
        note(line)
    return errors.StoreDamaged.exit_code if found.problems else OK


def _print_verified(found: Verified, *, quick: bool) -> None:
    for line in found.repaired:
        print_line(f"repaired: {printable(line)}")
    if not found.problems:
        how = "found in place" if quick else "read and checked"
        print_line(f"sound: {plural(found.checkpoints, 'checkpoint')}, {plural(found.blobs, 'blob')} {how}")
        return
    print_line(f"DAMAGED: {plural(len(found.problems), 'problem')} in {plural(found.checkpoints, 'checkpoint')}")
    for problem in found.problems:
        print_line(f"  {problem.kind} {problem.id[:16]}: {printable(problem.detail)}")
    if any(problem.affects for problem in found.problems):
        print_line("  --json names every checkpoint and path that is affected")
    print_line(f"  everything else can still be restored: {as_typed('restore REF --skip-damaged')}, or restore REF -- PATH")
    if not found.repaired:
        print_line("  casrewind verify --repair repairs what can be repaired")
    print_line(f"  {as_typed('save')} stores again what the project still has, and so repairs older checkpoints that lack it")


def _verified_json(found: Verified) -> Shape:
    return {
        "ok": not found.problems,
        "problems": [
            {
                "kind": problem.kind,
                "id": problem.id,
                "detail": problem.detail,
                "affects": [{"checkpoint": place.checkpoint, **shapes.path(place.path)} for place in problem.affects],
            }
            for problem in found.problems
        ],
        "blobs": found.blobs,
        "checkpoints": found.checkpoints,
        "repaired": list(found.repaired),
    }
