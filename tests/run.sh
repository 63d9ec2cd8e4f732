#!/bin/sh
# Everything that the tests need, then the tests. Needs Python 3.11 or newer with venv; makes .venv in the repository.
# Arguments go to pytest: `sh tests/run.sh -k undo`, `sh tests/run.sh --run-long`, `sh tests/run.sh --run-release`.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/requirements.lock
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
case $PWD in *' '*)  # pip's first line of the script cannot name an interpreter in such a place: the shell starts it
    printf '%s\n' '#!/bin/sh' "'''exec' \"$PWD/.venv/bin/python\" \"\$0\" \"\$@\"" "' '''" | cat - .venv/bin/casrewind >.venv/bin/casrewind.new
    chmod +x .venv/bin/casrewind.new && mv .venv/bin/casrewind.new .venv/bin/casrewind ;;
esac
# The commands under test and the programs beside them write no compiled modules, and would compile some of them at every start.
.venv/bin/python -m compileall -q casrewind tests/support
# A new clone: the assertions of all tests are rewritten here once. Else each worker does that, at the same time, which takes four times as long.
if [ ! -e .venv/rewritten ]; then
    find tests -name 'test_*.py' | sort | xargs -P 2 -n 90 .venv/bin/python -m pytest --collect-only -qq -n 0 -p no:cacheprovider >/dev/null || true
    touch .venv/rewritten
fi
# Six workers keep two cores busy: tests with real clients wait most of their time. The order of the tests is that of tests/conftest.py.
# Whatever is left behind (processes, temporary files, mounts) makes the run fail, by name.
interpreter=.venv/bin/python
case ${CASREWIND_TEST_AS-} in
    '') ;;
    macos) interpreter=$(.venv/bin/python tests/support/as_macos.py) ;;
    *) echo "CASREWIND_TEST_AS: only macos is known" >&2; exit 2 ;;
esac
exec .venv/bin/python tests/support/nothing_left.py "$interpreter" -m pytest -n "${CASREWIND_TEST_WORKERS:-6}" --dist loadgroup --no-loadscope-reorder "$@"
