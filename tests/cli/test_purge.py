"""casrewind purge as it is typed, and a secret that has got everywhere: afterwards not one byte of it is in the store."""

import json
import os
import random
import subprocess
import shlex

import pytest

from support import forked_command
from support.command import Command
from support.command_in_process import InProcess
from support.fake_client import Client
from support.picture import picture
from support.secret_search import hits, secret
from support.terminal import Session, with_patience
from support.trees import Link, plant


def feed(command, text, *arguments, code=None):
    """A command that reads a text from its standard input."""
    words = ["-C", command.root, *arguments]
    done = subprocess.CompletedProcess(words, *forked_command.call(words, command.environment, stdin=text))
    assert b"Traceback" not in done.stderr, done.stderr
    if code is not None:
        assert done.returncode == code, done
    return json.loads(done.stdout) if "--json" in arguments and done.stdout else done


def store_of(command):
    return command.json("status")["store"]


def test_a_secret_that_has_got_everywhere_is_gone_to_the_last_byte(root, home):
    """In an opted-in .env, a copy of it, a chunked file, a tool's result, a prompt, a label, a mark, the log."""
    process = Command(root, home)
    word = secret("everywhere")
    noise = random.Random(5).randbytes(3_000_000)
    plant(root, {
        ".gitignore": b".env\n", ".casrewindignore": b"!.env\n", "src/app.py": b"print('hello')\n" * 50,
        ".env": f"TOKEN={word}\n".encode(), "backup/old-env": f"TOKEN={word}\n".encode(),
        "dump.bin": noise[:1_700_000] + word.encode() + noise[1_700_000:],
    })  # fmt: skip
    client = Client(process, root)
    whole = client.transcript.read_bytes()
    result = {"type": "user", "uuid": "u-1", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t", "content": json.dumps({"stdout": word})}, {"type": "text", "text": word},
    ]}}  # fmt: skip
    padding = {"type": "user", "uuid": "u-2", "message": {"role": "user", "content": random.Random(6).randbytes(100_000).hex()}}
    for n, line in enumerate((result, padding, result)):
        line["uuid"] = f"u-{n}"
        whole += json.dumps(line, ensure_ascii=n == 0).encode() + b"\n"
    client.transcript.write_bytes(whole)
    client.send(client.payload("SessionStart.startup"))
    client.wait_for(1)
    client.send(client.payload("UserPromptSubmit.prompt", prompt="use " + word))
    client.send(client.payload("UserPromptSubmit.prompt", prompt="x" * 170 + " " + word))
    process("save", "-m", "with " + word, code=0)
    process("pin", "last", "pinned " + word, code=0)
    store = store_of(process)
    with open(os.path.join(store, "log"), "a") as file:
        file.write(f"2026-01-01T00:00:00Z could not do {word}\n")
    plant(root, {"src/app.py": b"print('later')\n"})
    process("save", code=0)

    before = hits(home / "data", word)
    assert any(name.endswith("ledger") for name in before) and any(name.endswith(".pack") for name in before)
    assert any(name.endswith("data.mdb") for name in before) and any(name.endswith("log") for name in before)

    seen = process.json("purge", ".env", "--dry-run")
    assert hits(home / "data", word) == before
    done = process.json("purge", ".env", "--yes")
    assert done == {**seen, "dry_run": False}
    assert [item["path"] for item in done["purged"]] == [".env"]
    assert [item["path"] for item in done["equal"]] == ["backup/old-env"]
    assert done["blobs"] == 1
    assert {item["path"] for item in done["still_there"]} == {".env", "backup/old-env"}

    told = feed(process, word.encode() + b"\n", "purge", "--text", "-", "--yes", "--json", code=3)
    assert told["places"] == {"transcripts": 3, "prompts": 2, "labels": 2, "details": 0, "log": 1}
    assert [item["path"] for item in told["files"]] == ["dump.bin"]
    assert [item["path"] for item in told["still_there"]] == [str(client.transcript)]
    left = hits(home / "data", word)
    assert left and all(name.endswith(".pack") for name in left), left
    assert list(process.json("purge", "dump.bin", "--yes")["purged"][0].values())[0] == "dump.bin"
    print(f"pieces of the secret before: {sum(before.values())} in {len(before)} files; after: {hits(home / 'data', word)}")
    assert hits(home / "data", word) == {}
    assert process.json("verify")["ok"]
    shown = process.json("show", "last")["entries"]
    assert {e["path"] for e in shown if e["kind"] == "purged"} == {".env", "backup/old-env", "dump.bin"}
    assert {e["path"] for e in shown if e["kind"] == "file"} >= {"src/app.py", ".gitignore"}


@pytest.fixture
def shop(root, home):
    """The command, with two checkpoints that hold a secret."""
    command = InProcess(root, home)
    plant(root, {"key": b"the secret itself\n", "dir/copy": b"the secret itself\n", "dir/other": b"something else\n", "f": b"1"})
    command("save", code=0)
    plant(root, {"f": b"2"})
    command("save", code=0)
    return command


def test_every_other_command_goes_on_with_what_is_left(shop, root):
    shop("purge", "key", "--yes", code=0)
    before = picture(root)
    listed = shop("list", "--all", "--json").out
    assert [point["files"] for point in shop.json("list")["checkpoints"]] == [2, 2]
    assert {e["path"]: e["kind"] for e in shop.json("show", "prev")["entries"]} == {
        "dir": "dir", "dir/copy": "purged", "dir/other": "file", "f": "file", "key": "purged",
    }  # fmt: skip
    assert "purged" in shop("show", "last", code=0).out
    assert shop.json("diff", "prev", "last")["changes"][0]["path"] == "f"
    assert {change["path"] for change in shop.json("diff", "last")["changes"]} == {"key", "dir/copy"}
    assert "the secret" in shop("diff", "--patch", "last", code=0).out  # of the worktree: that is what is there
    assert "was purged" in shop("cat", "last:key", code=15).err
    found = shop.json("restore", "prev", "--yes", code=3)
    assert {item["path"] for item in found["skipped"]} == {"key", "dir/copy"}
    assert [change["path"] for change in found["changes"]] == ["f"]
    assert (root / "key").read_bytes() == b"the secret itself\n"
    shop("undo", "--yes", code=0)
    assert picture(root) == before
    shop("redo", "--yes", code=0)
    shop("undo", "--yes", code=0)
    place = os.path.join(shop.home, "elsewhere")
    found = shop.json("restore", "prev", "--to", place, code=3)
    assert {item["path"] for item in found["skipped"]} == {"key", "dir/copy"}
    assert set(os.listdir(place)) - {".casrewind-origin"} == {"dir", "f"}
    shop("pin", "prev", "kept", code=0)
    shop("gc", "--max-count", "1", code=0)
    assert shop.json("verify")["ok"]
    del listed


def test_what_is_listed_is_the_same_without_the_index(shop):
    import shutil

    shop("pin", "prev", "a name", code=0)
    shop("purge", "key", "--yes", code=0)
    listed, shown = shop("list", "--all", "--json").out, shop("show", "prev", "--json").out
    shutil.rmtree(os.path.join(store_of(shop), "index"))
    assert (shop("list", "--all", "--json").out, shop("show", "prev", "--json").out) == (listed, shown)


def test_the_next_save_of_an_ignored_path_does_not_store_it_again(shop, root, home):
    plant(root, {".casrewindignore": b"key\n/dir/copy\n"})
    assert shop.json("purge", "key", "--yes")["still_there"] == []
    shop("save", code=0)
    shop("restore", "prev", "--yes", code=3)  # the rules of then: there the key was captured
    assert (root / "key").exists()
    assert hits(home / "data", b"the secret itself") == {}
    assert shop.json("verify")["ok"]


def test_a_directory_goes_with_all_that_is_under_it(shop, home):
    found = shop.json("purge", "dir", "--yes")
    assert [item["path"] for item in found["purged"]] == ["dir/copy", "dir/other"]
    assert [item["path"] for item in found["equal"]] == ["key"]
    assert hits(home / "data", b"something else") == hits(home / "data", b"the secret itself") == {}


def test_how_many_of_the_checkpoints_were_made_for_safety_is_said(shop, root):
    """A list shows them with --all alone: without these words the numbers look wrong."""
    shop("restore", "prev", "--yes", code=0)
    shop("undo", "--yes", code=0)
    every = shop.json("list", "--all")["checkpoints"]
    having = [p for p in every if "key" in {e["path"] for e in shop.json("show", p["id"])["entries"]}]
    safety = [p for p in having if p["trigger"] == "safety"]
    assert safety
    [dry] = shop.json("purge", "key", "--dry-run")["purged"]
    assert (dry["checkpoints"], dry["safety"]) == (len(having), len(safety))
    done = shop("purge", "key", "--yes", code=0)
    assert f"key in {len(having)} checkpoints ({len(safety)} of them made for safety, listed by --all alone)\n" in done.out


def test_a_text_in_a_name_or_a_link_stays_and_that_is_said(shop, root, home):
    plant(root, {"hunter2-name": b"x", "link": Link("hunter2-target")})
    shop("save", "-m", "of hunter2-name", code=0)
    for more in ("--dry-run", "--yes"):
        done = feed(Command(shop.root, shop.home), b"hunter2-name", "purge", "--text", "-", more, code=0)
        assert b"purge does not search file names and link targets" in done.stdout
    assert "hunter2-name" in {e["path"] for e in shop.json("show", "last")["entries"]}
    assert "hunter2" not in shop.json("list")["checkpoints"][0]["label"]


def test_purging_again_does_nothing_and_says_so(shop):
    shop("purge", "key", "--yes", code=0)
    again = shop("purge", "key", "--yes", code=0)
    assert "already purged" in again.out
    assert shop.json("purge", "key", "--yes")["blobs"] == 0


REFUSED = {
    "a path that no checkpoint has": (("purge", "nothing", "--yes"), 15, "no checkpoint has a file there"),
    "the root": (("purge", ".", "--yes"), 64, "below the root"),
    "outside": (("purge", "/etc/passwd", "--yes"), 14, "outside the root"),
    "nothing at all": (("purge", "--yes"), 64, "purge needs a PATH"),
    "both": (("purge", "key", "--text", "-", "--yes"), 64, "purge needs a PATH"),
    "the text as a word": (("purge", "--text", "hunter2", "--yes"), 64, "standard input"),
    "nobody to ask": (("purge", "key"), 64, "--yes"),
    "two paths": (("purge", "key", "f", "--yes"), 64, "unexpected 'f'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line_and_nothing_is_done(shop, home, case):
    arguments, code, words = REFUSED[case]
    before = picture(home / "data")
    result = shop(*arguments, code=code)
    assert words in result.err and result.out == ""
    assert len(result.err.splitlines()) == 1
    after = picture(home / "data")
    assert {path: what for path, what in after.items() if b"/locks/" not in path} == {
        path: what for path, what in before.items() if b"/locks/" not in path
    }


@pytest.mark.parametrize("text", [b"", b"abc", b"\n", b"abc\n", b"    \t ", b"x" * 9000])
def test_a_text_that_cannot_be_one_is_refused(root, home, text):
    process = Command(root, home)
    process("save", code=0)
    done = feed(process, text, "purge", "--text", "-", "--yes", code=64)
    assert done.stdout == b"" and len(done.stderr.splitlines()) == 1


def test_bytes_of_rules_that_were_not_named_stay_and_what_is_advised_works(shop, root):
    plant(root, {".gitignore": b"*.log\n", "copied": b"*.log\n", "it's/.gitignore": b"*.log\n"})
    shop("save", code=0)
    said = shop("purge", "copied", "--yes", code=64).err
    assert "casrewind purge .gitignore removes them" in said or "casrewind purge \"it's/.gitignore\" removes them" in said
    assert "purged" not in {e["kind"] for e in shop.json("show", "last")["entries"]}
    shop("purge", ".gitignore", "--yes", code=0)
    assert shop.json("verify")["ok"]
    kinds = {entry["path"]: entry["kind"] for entry in shop.json("show", "last")["entries"]}
    assert {kinds[path] for path in (".gitignore", "copied", "it's/.gitignore")} == {"purged"}
    plant(root, {"made since": b"x", "it's/made since": b"x"})
    shop("restore", "last", "-y")
    assert (root / "made since").exists() and (root / "it's/made since").exists(), "nobody knows what was ignored"


@pytest.mark.parametrize("outside", ["(git's core.excludesFile)", ".git/info/exclude"])
def test_a_text_in_rules_outside_of_the_tree_is_purged_as_the_command_advises(shop, root, home, outside):
    place = home / ".config/git/ignore" if outside.startswith("(") else root / ".git/info/exclude"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"# TOP-SECRET-WORD\n*.o\n")
    plant(root, {"f": b"1"})
    shop("save", code=0)
    process = Command(root, home)
    advice = next(line for line in feed(process, b"TOP-SECRET-WORD", "purge", "--text", "-", "--yes", code=3).stdout.decode().splitlines()
                  if "still holds it" in line)  # fmt: skip
    words = shlex.split(advice.partition(": casrewind ")[2].partition(" removes")[0])
    assert words == ["purge", outside]
    said = shop(*words, "--yes", code=0)
    assert "take out of it what should not be stored" in said.err
    assert feed(process, b"TOP-SECRET-WORD", "purge", "--text", "-", "--yes", code=0)
    assert shop.json("verify")["ok"]
    assert "nothing to do" in shop(*words, "--yes", code=0).out
    plant(root, {"made since": b"x"})
    shop("restore", "last", "-y")
    assert (root / "made since").exists()


def typed(process, *arguments):
    return Session(with_patience(process, 3600, *arguments), process.environment)


def test_a_person_is_asked_and_may_say_no(shop, root, home):
    session = typed(Command(root, home), "purge", "key")
    session.read_until(b"[y/N]")
    session.type("n\n")
    code, shown = session.end()
    assert code == 0 and b"nothing was purged" in shown
    assert b"dir/copy in 2 checkpoints, which has equal bytes" in shown
    assert hits(home / "data", b"the secret itself")


def test_the_text_is_asked_for_on_a_terminal_and_not_shown(root, home):
    process = Command(root, home)
    plant(root, {"f": b"1"})
    process("save", "-m", "hunter2-hunter2", code=0)
    session = typed(process, "purge", "--text", "-")
    session.read_until(b"not shown")
    session.sleep_until_it_reads()
    session.type("hunter2-hunter2\n")
    session.read_until(b"[y/N]")
    session.type("y\n")
    code, shown = session.end()
    assert code == 0 and b"1 label" in shown and b"hunter2" not in shown
    assert hits(home / "data", b"hunter2-hunter2") == {}


def test_a_text_in_a_session_s_id_or_path_is_counted_and_is_3(shop, home):
    word = "hunter2-project"
    client = Client(shop, shop.root)
    session = client.transcript.parent.with_name(f"-{word}") / client.transcript.name
    session.parent.mkdir()
    client.transcript.rename(session)
    client.send(client.payload("Stop.plain", session_id=session.stem, transcript_path=str(session)))
    client.send(client.payload("Stop.plain", session_id=word, transcript_path=str(client.transcript)))
    assert hits(home / "data", word.encode())
    done = feed(shop, word.encode(), "purge", "--text", "-", "--yes", code=3)
    assert b"4 records of checkpoints and sessions still hold it" in done.stdout, done
    assert feed(shop, word.encode(), "purge", "--text", "-", "--dry-run", "--json", code=3)["records"] == 4
