"""A conversation out of which a word was purged: it can still be forked, from the store alone, and the word is not in it."""

import json
import subprocess
import sys

from support.leaks import hits


def test_a_fork_of_stored_bytes_works_and_does_not_have_the_word(told, casrewind):
    client, prompts, _ = told
    word = prompts[0].text[:12]
    assert len(word) == 12 and hits(casrewind.home + "/data", word.encode())
    before = client.transcript.read_bytes()
    command = [sys.executable, "-m", "casrewind", "-C", casrewind.root, "purge", "--text", "-", "--yes", "--json"]
    done = subprocess.run(command, input=word.encode(), env=casrewind.environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert report["places"]["transcripts"] > 0 and report["places"]["prompts"] > 0
    assert [item["path"] for item in report["still_there"]] == [str(client.transcript)]
    assert client.transcript.read_bytes() == before, "the client's own file is the client's"
    assert hits(casrewind.home + "/data", word.encode()) == {}
    client.transcript.unlink()
    fork = casrewind.json("back", "1", "--yes")["fork"]
    with open(fork["path"], "rb") as file:
        lines = file.read().splitlines()
    assert len(lines) > 3
    assert all(json.loads(line) for line in lines)
    assert not any(word.encode() in line for line in lines)
    assert casrewind.json("verify")["ok"]
