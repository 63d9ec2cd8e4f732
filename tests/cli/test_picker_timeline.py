"""The picker's timeline is read in steps, and a step does not wait for many changes."""

import pytest

from casrewind.model.turn_records import Outside
from support.trees import plant


def test_a_step_has_few_rows_if_each_changed_many_files(workspace, root):
    """Thirty rows of a thousand changes each took two seconds before the picker showed the first one."""
    pytest.importorskip("textual")
    from casrewind.cli.picker.timeline import TimelineModel

    for number in range(5):
        plant(root, {f"d{name % 7}/f{name}": b"%d" % number for name in range(160)})
        workspace.save(f"step {number}")
    model = TimelineModel(workspace._context)
    steps = [model.first_timeline()]
    while not steps[-1].is_complete:
        steps.append(model.timeline_with_more())
    compared = [sum(isinstance(row.item, Outside) for row in step.rows) for step in steps]
    assert compared[0] == 2 and compared[-1] == 4 and len(steps) > 1
    saved = [row.target for row in steps[-1].rows if not isinstance(row.item, Outside)]
    assert saved == [point.id for point, _ in workspace.checkpoints()], "each once, in order"
