"""What the tests install is pinned by version and digest, and is what pyproject.toml asks for."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parent.parent


def locked():
    text = (TOP / "tests/requirements.lock").read_text("utf-8")
    blocks = re.split(r"\n(?=[a-z0-9])", "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))
    return {canonicalize_name(block.split("==")[0]): block for block in blocks if "==" in block}


def asked():
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    return [Requirement(text) for text in (*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra))]


@pytest.mark.parametrize("requirement", asked(), ids=str)
def test_a_requirement_is_locked_to_a_version_that_it_allows(requirement):
    block = locked()[canonicalize_name(requirement.name)]
    version = re.match(r"[^=]+==([^ \\;\n]+)", block)[1]
    assert requirement.specifier.contains(version)


def test_every_locked_package_has_digests():
    assert {name for name, block in locked().items() if "--hash=sha256:" not in block} == set()


def test_a_new_major_version_of_a_library_is_not_installed_unseen():
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    for requirement in map(Requirement, project["dependencies"]):
        assert any(part.operator == "<" for part in requirement.specifier), requirement
