#!/bin/sh
# The main job before your eyes, on a real project: save, break, look, restore, compare.
# Needs Python 3.11 or newer with venv; makes .venv in the repository and a scratch directory that it removes again.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
if [ ! -x .venv/bin/casrewind ]; then
    "$python" -m venv .venv && .venv/bin/python -m pip install --quiet --disable-pip-version-check -e .
    case $PWD in *' '*)  # pip's first line of the script cannot name an interpreter in such a place: the shell starts it
        printf '%s\n' '#!/bin/sh' "'''exec' \"$PWD/.venv/bin/python\" \"\$0\" \"\$@\"" "' '''" | cat - .venv/bin/casrewind >.venv/bin/casrewind.new
        chmod +x .venv/bin/casrewind.new && mv .venv/bin/casrewind.new .venv/bin/casrewind ;;
    esac
fi
casrewind=$PWD/.venv/bin/casrewind

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
export CASREWIND_HOME="$scratch/store"
say() { printf '\n== %s\n' "$*"; }
show() {  # a command as it is typed, then the command
    printf '$'
    for word in "$@"; do case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac; done
    printf '\n'
    "$@"
}

say "A real project: the source distribution of Django 5.2"
if .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary django --require-hashes -r docs/django.lock \
        -d "$scratch" \
    && mkdir "$scratch/unpacked" && tar xzf "$scratch"/[Dd]jango-5.2.tar.gz -C "$scratch/unpacked"; then
    mv "$scratch"/unpacked/* "$scratch/project"
else
    echo "(it cannot be downloaded here: Python's own standard library is taken instead)"
    cp -R "$(.venv/bin/python -c 'import os; print(os.path.dirname(os.__file__))')" "$scratch/project"
fi
cp -Rp "$scratch/project" "$scratch/untouched"
cd "$scratch/project"

say "Save it"
show "$casrewind" save -m "before the accident"

say "An agent goes wrong"
set -- $(find . -maxdepth 2 -name '[a-z]*' -type d | sort | sed -n '2p;5p')
show rm -rf "$@"
victim=$(find . -maxdepth 2 -type f -size +1k | sort | head -1)
show sed -i.bak 's/e/E/g' "$victim"
show chmod 755 "$victim"
show ln -s /etc surprise
show mkdir -p new/empty/directories

say "What happened"
"$casrewind" diff > "$scratch/diff" || true
head -6 "$scratch/diff"
echo "..."
tail -1 "$scratch/diff"

say "Take it back"
show "$casrewind" restore "before the accident" --yes

say "Compare with the untouched copy, by other code: names, bytes, modes, times, empty directories"
"$OLDPWD/.venv/bin/python" - "$scratch/untouched" "$scratch/project" <<'PYTHON'
import hashlib, os, stat, sys

def picture(top):
    found = {}
    for place, directories, files in os.walk(top):
        for name in directories + files:
            path = os.path.join(place, name)
            status = os.lstat(path)
            entry = [stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)]
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    entry += [status.st_mtime_ns, hashlib.sha256(file.read()).hexdigest()]
            elif stat.S_ISLNK(status.st_mode):
                entry = [entry[0], os.readlink(path)]
            found[os.path.relpath(path, top)] = entry
    return found

one, other = picture(sys.argv[1]), picture(sys.argv[2])
wrong = [path for path in one.keys() | other.keys() if one.get(path) != other.get(path)]
if wrong:
    sys.exit(f"NOT EQUAL: {len(wrong)} paths differ, for example {wrong[:3]}")
print(f"equal: {len(one)} entries")
PYTHON

say "And the restore itself can be undone"
show "$casrewind" undo --yes
show "$casrewind" list
