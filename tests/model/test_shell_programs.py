"""Which words of a script a shell would look for as programs: each of them, and no other."""

import random
import time

import pytest

from casrewind import agents
from casrewind.agents import transcript
from casrewind.model.shell_programs import find_programs
from support.recorded_session import DATA

SCRIPTS = [
    ('VAR=x pnpm test', 'pnpm'),
    ('cd x && pnpm test | head', 'pnpm head'),
    ('./run.sh; /usr/bin/foo a; bin/x', ''),
    ('echo \'pnpm x\' "psql" | wc -l', 'wc'),
    ('cat <<EOF > f\npsql -c 1\nEOF\nnpm i', 'cat npm'),
    ("cat <<'EOF'\nfoo bar\nEOF", 'cat'),
    ('python3 - <<-PY\n\timport os\n\tPY\nls', 'python3 ls'),
    ('for f in a b c; do gzip $f; done', 'gzip'),
    ('if test -f x; then make; else cmake .; fi', 'make cmake'),
    ('case $x in start) run1 ;; stop|halt) run2;; *) run3 ;; esac; after', 'run1 run2 run3 after'),
    ('case "$1" in\n  a)\n   go build\n   ;;\n  b|c) x1;;\nesac\nmake', 'go x1 make'),
    ('X=$(git rev-parse HEAD) && echo $X', 'git'),
    ('echo "$(psql -c)"', ''),
    ('ls > out.txt 2>&1 && wc -l < out.txt', 'ls wc'),
    ('> log.txt grep x', 'grep'),
    ('foo() { bar; }; foo x', 'bar'),
    ('function foo { bar; }\nfoo', 'bar'),
    ('[[ -f a && b == c ]] && tool', 'tool'),
    ('((i++)); tool', 'tool'),
    ('a=(one two three); tool', 'tool'),
    ('sudo apt-get install x', 'sudo apt-get'),
    ('sudo -u postgres psql', 'sudo'),
    ('timeout 10 pnpm test', 'timeout pnpm'),
    ('env FOO=1 node x.js', 'env node'),
    ('exec node x', 'node'),
    ('command -v pnpm', ''),
    ('# comment pnpm\nls # psql', 'ls'),
    ('echo a\\;b; ls', 'ls'),
    ('ls \\\n -la \\\n| sort', 'ls sort'),
    ('(cd x; make) & wait', 'make'),
    ('$PY -m pytest; "$X" y; \'my tool\' z', ''),
    ('while read -r l; do jq . <<< "$l"; done < <(find . -name x)', 'jq find'),
    ("printf 'a' | tee >(gzip) | xargs rm", 'tee gzip xargs rm'),
    ('git commit -m "it\'s (done) && psql"', 'git'),
    ('echo `hostname`', 'hostname'),
    ('time make', 'make'),
    ('node -e "const a = 1; foo(a)"; ls', 'node ls'),
    ("awk '{print $1}' f | sed 's/a/b/;s/c/d/'", 'awk sed'),
    ('find . -exec rm {} \\;', 'find'),
    ('test -f x && { make; } || exit 1', 'make'),
    ('echo $((1+2)); ls', 'ls'),
    ('echo ${A:-x y}; ls', 'ls'),
    ('export A=b; unset C; set -e; source x; . y', ''),
    ("echo 'unterminated psql", ''),
    ('cat <<A <<B\nx1\nA\nx2\nB\nls', 'cat ls'),
    ('echo a &> f; ls &', 'ls'),
    ('ls;# x\npwd', 'ls'),
    ('if [ -n "$X" ]; then docker ps; fi', 'docker'),
    ('until curl -s x; do sleep 1; done', 'curl sleep'),
    ('select x in a b; do pick; done', 'pick'),
    ('npx tsc --noEmit 2>&1 | head -20', 'npx head'),
    ('a && b=1 c', 'a c'),
    ("python -c '\nimport x\nfoo\n'\nls", 'python ls'),
    ('pnpm exec x; A=1 B=2 yarn', 'pnpm yarn'),
    ('git status || (cd x && make)', 'git make'),
    ('nohup gunicorn app &', 'nohup gunicorn'),
    ('find . | xargs -I {} rm {}', 'find xargs'),
    ('a; a; b', 'a b'),
    ('', ''),
    ('   \n\n', ''),
    ('<<', ''),
    (';;', ''),
    ('7z x a.7z; 123', '7z'),
    ('PATH=$PATH:x ls', 'ls'),
    ("set -euo pipefail; trap 'rm x' EXIT; ls", 'ls'),
    ('if ! grep -q x f; then true; fi', 'grep'),
    ('echo a \\\n  b; ls', 'ls'),
    ("cat > f << 'END'\nEND2\nEND\nls", 'cat ls'),
    ('diff <(sort a) <(uniq b)', 'diff sort uniq'),
    ('echo hi >&2; ls 2>/dev/null', 'ls'),
    ('python3 -c "print(1)" && echo ok', 'python3'),
    ('{ ls; } 2>&1', 'ls'),
    ('declare -A m=([a]=1); ls', 'ls'),
    ('coproc cat', 'cat'),
    ('case $(uname) in\n  Linux)\n    apt x;;\nesac; ls', 'uname apt ls'),
]


@pytest.mark.parametrize("script, wanted", SCRIPTS)
def test_programs_are_found_and_no_other_word(script, wanted):
    assert find_programs(script) == wanted.split()


def test_the_commands_of_all_recordings_name_these_programs():
    """Looked at once, one by one."""
    found = {}
    for path in sorted(DATA.glob("*/*.jsonl")):
        client = agents.load_conversation_client(path.parent.name)
        for script in transcript.commands_in_calls(path.read_bytes(), client.sessions.shell):
            found.setdefault(client.name, {}).update(dict.fromkeys(find_programs(script)))
    assert {name: sorted(programs) for name, programs in found.items()} == {
        "claude": ["env", "grep", "sed", "sleep"], "codex": ["cat"], "copilot": ["rm"], "droid": ["env", "grep", "sed"], "gemini": ["rm"],
        "opencode": ["rm"], "pi": ["rm", "sleep"],
    }  # fmt: skip


def test_any_text_is_read_to_its_end():
    chance = random.Random(5)
    letters = "abc $(){}<>|&;'\"\\`\n\t#=[]! case in esac for do done if <<E \x00\ud800é"
    for _ in range(3000):
        for name in find_programs("".join(chance.choice(letters) for _ in range(chance.randrange(60)))):
            assert name.isascii() and "/" not in name and 0 < len(name) <= 64


@pytest.mark.parametrize("part", ["(", "'", "$(", "<<a\n", "a ", "\\", "${", "case in ", "x=(", "[[ ", "$'", "0>", "a#", "x[", '"\\'])
def test_a_long_script_takes_no_time_out_of_proportion(part):
    before = time.process_time()
    find_programs(part * 100_000)
    assert time.process_time() - before < 5
