"""The extension that `casrewind install pi` writes: whose a file is, in and out again, tiers, and scopes."""

import json
import os
import re

import pytest

from casrewind import errors, launch
from casrewind.agents import hook_checks, extension, install
from casrewind.agents.client import TIERS
from casrewind.agents.pi import CLIENT as PI
from support.trees import plant


def target(home, root=None):
    return install.make_target(PI, root and str(root), str(home), {})


def constants(data):
    return {name: json.loads(value) for name, value in re.findall(r"^const ([A-Z]+) = ([\[{tf].*);$", data.decode(), re.MULTILINE) if name in ("COMMAND", "EVENTS", "HARMLESS")}


@pytest.mark.parametrize("tier", TIERS)
def test_in_and_out_again_leaves_nothing(home, tier):
    found = install.install(target(home), tier, {})
    path = home / ".pi/agent/extensions/casrewind.js"
    assert (found.changed, found.written[0].path, path.stat().st_mode & 0o777) == (True, str(path), 0o600)
    assert constants(path.read_bytes()) == {
        "COMMAND": launch.own_command(), "EVENTS": {hook.event: hook.timeout for hook in PI.hooks_of(tier)},
        "HARMLESS": ["find", "grep", "ls", "read"],
    }  # fmt: skip
    assert not install.install(target(home), tier, {}).changed
    seen = hook_checks.read_and_check_hooks(PI, None, str(home), {}, "")
    assert (seen.problems, seen.notes, [scope.tier for scope in seen.scopes]) == ((), (), [tier])
    assert install.uninstall(target(home)).written[0].restored
    assert os.listdir(home / ".pi/agent") == []
    assert install.uninstall(target(home)).written == ()


def test_other_extensions_and_edited_ones_are_left_alone(home):
    plant(home, {".pi/agent/extensions/other.js": b"export default () => {}", ".pi/agent/extensions/casrewind.js": b"export default 1"})
    with pytest.raises(errors.AgentError, match="of your own"):
        install.install(target(home), "balanced", {})
    assert install.uninstall(target(home)).written == ()
    path = home / ".pi/agent/extensions/casrewind.js"
    path.unlink()
    install.install(target(home), "balanced", {})
    path.write_bytes(path.read_bytes() + b"// mine\n")
    edited = path.read_bytes()
    for work in (lambda: install.install(target(home), "minimal", {}), lambda: install.uninstall(target(home))):
        with pytest.raises(errors.AgentError, match="was edited"):
            work()
    assert path.read_bytes() == edited
    assert any("was edited" in problem for problem in hook_checks.read_and_check_hooks(PI, None, str(home), {}, "").problems)


def test_the_extension_of_an_earlier_version_is_replaced(home):
    install.install(target(home), "balanced", {})
    path = home / ".pi/agent/extensions/casrewind.js"
    data = path.read_bytes().replace(b"const MOST", b"const MUCH")
    path.write_bytes(re.sub(rb"// digest \w+", b"// digest " + extension._digest_without_own(data), data))
    assert hook_checks.read_and_check_hooks(PI, None, str(home), {}, "").notes
    assert install.install(target(home), "balanced", {}).changed and b"MUCH" not in path.read_bytes()


def test_a_project_has_its_own(home, root):
    found = install.install(target(home, root), "minimal", {})
    assert found.written[0].path == str(root / ".pi/extensions/casrewind.js")
    seen = hook_checks.read_and_check_hooks(PI, str(root), str(home), {}, "")
    assert [scope.scope for scope in seen.scopes] == ["project"]
    install.uninstall(target(home, root))
    assert os.listdir(root) == []


def test_an_interpreter_that_is_gone_is_told(home):
    install.install(target(home), "balanced", {})
    path = home / ".pi/agent/extensions/casrewind.js"
    data = re.sub(rb"const COMMAND = .*;", b'const COMMAND = ["/nowhere/python", "-I", "/nowhere/casrewind/__main__.py"];', path.read_bytes())
    path.write_bytes(re.sub(rb"// digest \w+", b"// digest " + extension._digest_without_own(data), data))
    is_connected, gone = hook_checks.find_missing_hook_files(PI, None, str(home), {})
    assert is_connected and gone and "/nowhere/python" in gone[0]
