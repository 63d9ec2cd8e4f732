"""Conversations that held a word which was purged: what of them can still be forked, and that the word is in none of it."""

import json
import subprocess
import sys

import pytest

from support.secret_search import hits


def purge(casrewind, word):
    command = [sys.executable, "-m", "casrewind", "-C", casrewind.root, "purge", "--text", "-", "--yes", "--json"]
    done = subprocess.run(command, input=word.encode(), env=casrewind.environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done
    assert hits(casrewind.home + "/data", word.encode()) == {} and casrewind.json("verify")["ok"]
    return json.loads(done.stdout)


def forked(casrewind):
    """The lines of a fork before the newest prompt that is known."""
    with open(casrewind.json("back", "--chat", "--yes")["fork"]["path"], "rb") as file:
        return file.read().splitlines()


@pytest.mark.parametrize("number", [0, 2])
def test_the_client_s_own_file_is_left_alone_and_is_forked_as_before(told, casrewind, number):
    client, prompts, _ = told
    before, expected = client.transcript.read_bytes(), forked(casrewind)
    report = purge(casrewind, prompts[number].text[:12])
    assert report["places"]["transcripts"] > 0 and report["places"]["prompts"] > 0
    assert str(client.transcript) in [item["path"] for item in report["still_there"]]
    assert client.transcript.read_bytes() == before and len(forked(casrewind)) == len(expected)


def test_without_the_client_s_file_it_is_forked_from_what_was_stored_before_the_word(told, casrewind):
    client, prompts, _ = told
    word = prompts[2].text[:12]
    assert len(word) == 12 and hits(casrewind.home + "/data", word.encode())
    purge(casrewind, word)
    client.transcript.unlink()
    assert 'the prompt of @1 "***" is no longer in the conversation' in casrewind("back", "1", "--chat", "--yes", code=16).err
    lines = forked(casrewind)
    assert len(lines) > 3 and all(json.loads(line) for line in lines) and not any(word.encode() in line for line in lines)


def test_where_every_stored_transcript_held_it_that_is_said(told, casrewind):
    client, prompts, _ = told
    purge(casrewind, prompts[0].text[:12])
    client.transcript.unlink()
    assert "holds no prompt" in casrewind("back", "1", "--chat", "--yes", code=16).err
