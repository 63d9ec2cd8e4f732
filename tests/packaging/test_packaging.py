"""The package that people install: it builds, its metadata is complete, and uv, pipx and pip install a command that works."""

import email
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging import tags

TOP = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
HAS_COMPILER = bool(
    sys.platform.startswith("linux") and shutil.which("cc") and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
)
pytestmark = pytest.mark.xdist_group("packaging")


@pytest.fixture(autouse=True, scope="module")
def home(tmp_path_factory):
    """uv and pipx keep caches below the home directory."""
    place = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(place))
        yield place


def run(*command, cwd=TOP, check=True, **variables):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CASREWIND", "VIRTUAL_ENV", "PYTHON"))}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env={**environ, **variables}, capture_output=True, text=True)
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of what git tracks: a build must not depend on other files."""
    place = tmp_path_factory.mktemp("source") / "casrewind"
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout.split("\0")
    for name in filter(None, names):
        if (TOP / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, place / name)
    return place


@pytest.fixture(scope="module")
def built(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source)
    (wheel,), (archive,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, archive


@pytest.mark.turns(3)
def test_twine_finds_nothing_wrong(built):
    assert run(sys.executable, "-m", "twine", "check", "--strict", *built).stdout.count("PASSED") == 2


def test_the_metadata_is_complete(built):
    with zipfile.ZipFile(built[0]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = email.message_from_bytes(archive.read(name))
        names = archive.namelist()
    assert found["Author"] and found["Keywords"] and found["License-Expression"] == "MIT"
    assert {line.partition(",")[0] for line in found.get_all("Project-URL")} == {"Homepage", "Documentation", "Changelog", "Issues"}
    classifiers = found.get_all("Classifier")
    for version in PYTHONS:
        assert f"Programming Language :: Python :: {version}" in classifiers
    assert any(line.startswith("Development Status") for line in classifiers)
    assert any(name.endswith("man1/casrewind.1") for name in names) and "casrewind/py.typed" in names


def test_the_source_archive_has_what_a_build_and_the_tests_need(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "casrewind/__main__.py", "tests/run.sh"} <= names
    assert {"hatch_build.py", "casrewind/worktree/threaded_comparison.c"} <= names and not any(name.endswith(".so") for name in names)


def test_the_wheel_has_the_compiled_module_for_every_python(built):
    if not HAS_COMPILER:
        pytest.skip("there is no compiler, or no Python.h")
    with zipfile.ZipFile(built[0]) as archive:
        names = archive.namelist()
    assert "casrewind/worktree/threaded_comparison.abi3.so" in names and not any(name.endswith(".c") for name in names)
    assert "-cp311-abi3-linux_" in built[0].name


@pytest.fixture(scope="module")
def built_without(source, tmp_path_factory):
    """(the wheel that is built without a compiler, what the build printed)."""
    out = tmp_path_factory.mktemp("plain")
    done = run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source, CC="no-such-compiler")
    (wheel,) = out.glob("*.whl")
    return wheel, done.stdout + done.stderr


@pytest.mark.turns(3)
def test_without_a_compiler_the_wheel_is_one_for_every_system(built_without, tmp_path):
    wheel, printed = built_without
    with zipfile.ZipFile(wheel) as archive:
        assert not any(name.endswith((".so", ".c")) for name in archive.namelist())
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not any(word in printed.lower() for word in ("error", "warning", "compil", "fail")), printed
    run(sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, tmp_path / "venv")
    run(sys.executable, "-m", "uv", "pip", "install", "-q", "--python", tmp_path / "venv/bin/python", wheel)
    works(tmp_path / "venv/bin/casrewind", tmp_path)


def test_the_source_compiles_without_a_warning(tmp_path):
    if not HAS_COMPILER:
        pytest.skip("there is no compiler, or no Python.h")
    flags = "-Wall -Wextra -Wconversion -Wshadow -Wmissing-prototypes -Werror -O2 -fPIC -shared -pthread -isystem".split()
    run("cc", *flags, sysconfig.get_path("include"), "-o", tmp_path / "module.so", TOP / "casrewind/worktree/threaded_comparison.c")


@pytest.fixture
def as_on_a_mac(monkeypatch, tmp_path):
    """as_on_a_mac(): (what the build hook puts into a wheel, the arguments of the compiler) on macOS 14. The compiler and xcode-select, which
    says whether there are Apple's tools, are programs that write down how they were called."""
    monkeypatch.setattr(tags, "platform_tags", lambda: tags.mac_platforms((14, 5), "arm64"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.delenv("CC", raising=False)
    (tmp_path / "bin").mkdir()
    found = importlib.util.spec_from_file_location("hatch_build", TOP / "hatch_build.py")
    found.loader.exec_module(hook := importlib.util.module_from_spec(found))

    def build(tools=True):
        log = tmp_path / "compiled"
        for name, body in (("xcode-select", f"exit {0 if tools else 2}"), ("clang", f'printf "%s\\n" "$@" >>{log}')):
            (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / "bin" / name).chmod(0o755)
        monkeypatch.setattr(sysconfig, "get_config_var", lambda name: "clang")
        data = {"force_include": {}}
        built = hook.CompileThreadedComparison(str(TOP), {}, None, None, str(tmp_path), "wheel")
        built.initialize("standard", data)
        built.finalize("standard", data, "")
        return data, log.read_text().splitlines() if log.exists() else []

    return build


def test_on_macos_the_module_is_a_bundle_for_the_version_that_the_tag_names(as_on_a_mac):
    data, arguments = as_on_a_mac()
    assert (data["tag"], data["pure_python"]) == ("cp311-abi3-macosx_14_0_arm64", False)
    assert list(data["force_include"].values()) == ["casrewind/worktree/threaded_comparison.abi3.so"]
    assert {"-bundle", "-undefined", "dynamic_lookup", "-mmacosx-version-min=14.0"} <= set(arguments) and "-shared" not in arguments


def test_on_a_mac_without_apples_tools_no_compiler_is_started_which_would_open_a_window(as_on_a_mac):
    assert as_on_a_mac(tools=False) == ({"force_include": {}}, [])


def test_an_editable_installation_has_no_module_of_an_older_source(source, tmp_path):
    """Where the compiler is gone, the module goes as well."""
    place = tmp_path / "clone"
    shutil.copytree(source, place)
    module = place / "casrewind/worktree/threaded_comparison.abi3.so"
    run(sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, tmp_path / "venv")
    for variables, is_there in (({}, HAS_COMPILER), ({"CC": "no-such-compiler"}, False)):
        editable = ("pip", "install", "-q", "--no-deps", "--no-build-isolation", "--python", tmp_path / "venv/bin/python", "-e", place)
        run(sys.executable, "-m", "uv", *editable, PYTHONPATH=sysconfig.get_path("purelib"), **variables)
        assert module.exists() == is_there
    assert not list(module.parent.glob("*.new"))


def works(command, tmp_path):
    """Save, wreck, restore in a new project with the installed command."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    (project / "a").write_text("one")
    variables = {"HOME": str(home), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}
    assert run(command, "--version", cwd=project, check=False, **variables).returncode in (0, 64)
    run(command, "save", cwd=project, **variables)
    (project / "a").unlink()
    run(command, "restore", "last", "--yes", cwd=project, **variables)
    assert (project / "a").read_text() == "one"


def test_uv_tool_installs_it_and_removes_it(built, tmp_path):
    variables = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin"), "UV_PYTHON": sys.executable}
    run(sys.executable, "-m", "uv", "tool", "install", built[0], **variables)
    works(tmp_path / "bin" / "casrewind", tmp_path)
    for url in ("s3://team/shop", f"file://{tmp_path}/shop"):  # without the extra
        asked = run(tmp_path / "bin" / "casrewind", "remote", "add", url, cwd=tmp_path / "project", check=False, HOME=str(tmp_path / "home"))
        assert (asked.returncode, asked.stderr) == (17, "casrewind: remote commands need casrewind[remote]; uv tool install 'casrewind[remote]'\n")
    run(sys.executable, "-m", "uv", "tool", "uninstall", "casrewind", **variables)
    assert not (tmp_path / "bin" / "casrewind").exists()


@pytest.mark.long  # a push has it in tests/packaging/test_newcomer_path.py, from a clone
def test_pipx_installs_it_and_removes_it(built, tmp_path):
    variables = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin"), "PIPX_MAN_DIR": str(tmp_path / "man")}
    run(sys.executable, "-m", "pipx", "install", "--python", sys.executable, built[0], **variables)
    works(tmp_path / "bin" / "casrewind", tmp_path)
    assert (tmp_path / "man" / "man1" / "casrewind.1").exists()
    run(sys.executable, "-m", "pipx", "uninstall", "casrewind", **variables)
    assert not (tmp_path / "bin" / "casrewind").exists()


@pytest.mark.turns(3)
@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_runs_on_every_python_that_it_names(built, tmp_path, version):
    found = run(sys.executable, "-m", "uv", "python", "find", "--no-python-downloads", version, check=False)
    if found.returncode:
        pytest.skip(f"there is no Python {version} on this machine")
    place = tmp_path / "venv"
    run(sys.executable, "-m", "uv", "venv", "-q", "--python", found.stdout.strip(), place)
    installed = run(sys.executable, "-m", "uv", "pip", "install", "-q", "--python", place / "bin/python", built[0], check=False)
    if installed.returncode and version == PYTHONS[-1]:
        pytest.skip(f"a dependency has no wheel for {version}: {installed.stderr.strip().splitlines()[-1]}")
    assert installed.returncode == 0, installed.stderr
    works(place / "bin" / "casrewind", tmp_path)
