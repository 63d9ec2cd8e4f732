"""A proof: what was cut, changed or moved is found without the store, and honest histories raise no alarm."""

import base64
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from casrewind.history import machine_key, proof
from casrewind.model import statement
from casrewind.model.retention import Limits
from casrewind.upkeep.save import Moment, save
from support.command import Command
from support.trees import plant

PAGE = Path(__file__).parent.parent.parent / "docs/proof-format.md"
MUTATIONS = 10_000
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


def make(workspace, root, count, prompt="secret prompt"):
    for number in range(count):
        plant(root, {"f": b"%d" % number, "link": b"x"})
        save(workspace._context, Moment("prompt", prompt=f"{prompt} {number}", agent="claude", session="s1", opens_turn=True))


def attested(workspace, **more):
    made = proof.attest(workspace._context, **more)
    return json.dumps(made.envelope).encode(), machine_key.public_pem(machine_key.find_or_make_key(workspace._context.data)), made.anchor


def payload_of(data):
    return json.loads(base64.b64decode(json.loads(data)["payload"]))


def signed(payload, key=KEY):
    """An envelope of any payload, by a key that the forger has."""
    body = json.dumps(payload).encode()
    signature = base64.b64encode(key.sign(proof._signed_bytes(body))).decode()
    entry = {"keyid": machine_key.id_of(key.public_key()), "sig": signature}
    return json.dumps({"payload": base64.b64encode(body).decode(), "payloadType": proof.PAYLOAD_TYPE, "signatures": [entry]}).encode()


def history(chance, count):
    """The statements of a made history: checkpoints, and now and then a purge."""
    texts, before = [], statement.NONE
    for number in range(count):
        if number % 7 == 5:
            text = statement.text_of_purge(before, [f"c{number - 1}"])
        else:
            fields = {"kind": "checkpoint", "before": "" if before == statement.NONE else before.hex(), "id": f"c{number}", "turn": f"c{number // 2}"}
            text = json.dumps({**fields, "tree": chance.randbytes(32).hex(), "prompt": chance.randbytes(32).hex()}).encode()
        texts.append(text.decode())
        before = blake3(text).digest()
    return {"format": 1, "made": 0, "statements": texts, "dropped": {}}


def mutate(chance, payload):
    """A payload with one mutation, and whether it is a cut at the end."""
    texts = list(payload["statements"])
    at = chance.randrange(1, len(texts) - 1)
    way = chance.choice(("cut", "reorder", "swap", "edit", "purge", "end", "double"))
    if way == "cut":
        del texts[at]
    elif way == "reorder":
        texts[at], texts[at - 1] = texts[at - 1], texts[at]
    elif way == "swap":
        texts[at] = json.dumps({**json.loads(texts[at]), "tree": chance.randbytes(32).hex()})
    elif way == "edit":
        texts[at] = texts[at].replace("a", "b", 1) if "a" in texts[at] else texts[at] + " "
    elif way == "purge":
        texts.remove(next(text for text in texts[:-1] if '"purge"' in text))
    elif way == "end":
        del texts[-chance.randrange(1, len(texts) - 1) :]
    else:
        texts.insert(at, texts[at])
    return {**payload, "statements": texts}, way == "end"


def test_every_mutation_of_a_history_is_found_even_if_the_forger_has_the_key():
    chance, pem, unseen = random.Random(4), machine_key.public_pem(KEY), 0
    payload = history(chance, 24)
    anchor = blake3(payload["statements"][-1].encode()).hexdigest()
    assert not proof.check(signed(payload), pem, anchor).problems
    for number in range(MUTATIONS):
        if number % 500 == 0:
            payload = history(chance, 24)
            anchor = blake3(payload["statements"][-1].encode()).hexdigest()
        changed, is_end = mutate(chance, payload)
        data = signed(changed)
        assert proof.check(data, pem, anchor).problems
        assert is_end or proof.check(data, pem).problems
        unseen += is_end
    print(f"{unseen} cuts at the end: found with the anchor, and none without")
    assert 0 < unseen < MUTATIONS / 4
    assert proof.check(signed(payload, OTHER), pem, anchor).problems == ("the signature is not by this key, or the proof was changed",)


def test_honest_histories_raise_no_alarm():
    chance, pem = random.Random(5), machine_key.public_pem(KEY)
    for _ in range(1000):
        payload = history(chance, chance.randrange(1, 40))
        begin = chance.randrange(len(payload["statements"]))
        part = {**payload, "statements": payload["statements"][begin:]}
        assert proof.check(signed(part), pem, blake3(part["statements"][-1].encode()).hexdigest()).problems == ()


def test_ten_thousand_turns_are_verified(request):
    """With --run-long, in two seconds of processor time."""
    payload, pem = history(random.Random(6), 20_000), machine_key.public_pem(KEY)
    data = signed(payload)
    began = time.process_time()
    found = proof.check(data, pem)
    assert found.problems == () and found.turns >= 9_990
    assert not request.config.getoption("--run-long") or time.process_time() - began < 2


def test_gc_and_purges_leave_an_old_proof_sound_and_a_new_one_says_what_is_gone(workspace, root):
    plant(root, {"key": b"bytes of a secret file"})
    make(workspace, root, 20)
    old, pem, anchor = attested(workspace)
    assert proof.check(old, pem, anchor).problems == ()
    workspace.purge([b"key"])
    workspace.purge_text(b"secret prompt")
    workspace.gc(limits=Limits(None, 5, 1))
    assert proof.check(old, pem, anchor).problems == ()
    new, _, _ = attested(workspace, prompts=True)
    found = proof.check(new, pem, anchor)
    assert found.problems == () and found.purges == 2 and found.statements == 22
    assert {"gc", "purge"} == set(payload_of(new)["dropped"].values())
    assert b"secret" not in base64.b64decode(json.loads(new)["payload"])


def test_no_guessed_prompt_is_confirmed_by_a_purged_statement(workspace, root):
    make(workspace, root, 1, "fix")
    data, _, _ = attested(workspace)
    stated = json.loads(payload_of(data)["statements"][0])["prompt"]
    shown = payload_of(attested(workspace, prompts=True)[0])["prompts"]
    assert next(iter(shown.values()))["prompt"] == "fix 0"
    workspace.purge_text(b"fix 0")
    text = attested(workspace, prompts=True)[0]
    assert payload_of(text)["prompts"] == {}
    body = base64.b64decode(json.loads(text)["payload"])
    known = [bytes.fromhex(word) for word in re.findall(rb"\b[0-9a-f]{64}\b".decode(), body.decode())]
    for number in range(100_000):
        guess = b"fix %d" % number
        assert blake3(guess).hexdigest() != stated and blake3(bytes(32) + guess).hexdigest() != stated
        if not number:
            assert all(blake3(salt + guess).hexdigest() != stated for salt in known)


def test_a_shown_prompt_must_be_the_stated_one(workspace, root):
    make(workspace, root, 2)
    data, _, _ = attested(workspace, prompts=True)
    payload, pem = payload_of(data), machine_key.public_pem(KEY)
    assert proof.check(signed(payload), pem).problems == ()
    next(iter(payload["prompts"].values()))["prompt"] = "another"
    assert proof.check(signed(payload), pem).problems


def test_the_directory_is_compared_with_the_list(workspace, root):
    make(workspace, root, 1)
    data, pem, _ = attested(workspace, files=True)
    assert proof.check(data, pem, "", str(root)).problems == ()
    plant(root, {"beyond": b"1", "f": b"other"})
    found = proof.check(data, pem, "", str(root))
    assert found.problems == ("f is not as the proof has it",) and "not covered: beyond" in found.notes


def test_another_library_reads_the_envelope(workspace, root):
    make(workspace, root, 1)
    data, pem, _ = attested(workspace)
    envelope = Envelope.from_dict(json.loads(data))
    key = SSlibKey.from_crypto(load_pem_public_key(pem), keyid=next(iter(envelope.signatures)))
    assert envelope.verify([key], 1)


def programs():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_the_programs_of_the_page_check_the_chain_and_a_directory(workspace, root, tmp_path):
    make(workspace, root, 5)
    data, pem, _ = attested(workspace, files=True)
    chain, directory = programs()
    assert len(chain.splitlines()) <= 40 and len(directory.splitlines()) <= 15 and "casrewind" not in re.sub("vnd.casrewind|casrewind.attest", "", chain)
    (tmp_path / "check.py").write_text(chain + directory)
    (tmp_path / "key").write_bytes(pem)

    def run(data):
        (tmp_path / "proof.json").write_bytes(data)
        command = [sys.executable, tmp_path / "check.py", tmp_path / "proof.json", tmp_path / "key", root]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run(data).returncode == 0, run(data).stderr
    payload = payload_of(data)
    (tmp_path / "key").write_bytes(machine_key.public_pem(KEY))
    assert run(data).returncode != 0 and run(signed(payload)).returncode == 0
    del payload["statements"][2]
    assert run(signed(payload)).returncode != 0
    payload = payload_of(data)
    plant(root, {"f": b"other"})
    assert run(signed(payload)).returncode != 0


def test_the_key_is_made_once_and_for_its_owner_alone(tmp_path):
    first = machine_key.find_or_make_key(str(tmp_path))
    assert (tmp_path / machine_key.NAME).stat().st_mode & 0o777 == 0o600
    assert machine_key.find_or_make_key(str(tmp_path)).private_bytes_raw() == first.private_bytes_raw()
    (tmp_path / machine_key.NAME).chmod(0o644)
    with pytest.raises(Exception, match="others can read"):
        machine_key.find_or_make_key(str(tmp_path))


def test_the_commands_make_and_check_a_proof_without_the_store(root, home, tmp_path):
    command = Command(root, home)
    plant(root, {"f": b"1"})
    command("save", "-m", "one")
    (tmp_path / "key").write_text(command("attest", "--key").out)
    made = command("attest", "--files")
    (tmp_path / "proof.json").write_text(made.out)
    anchor = re.search(r"[0-9a-f]{64}", made.err)[0]
    words = ("verify", "--proof", str(tmp_path / "proof.json"), "--public-key", str(tmp_path / "key"))
    assert "sound: 1 statement" in command(*words, "--expect", anchor, str(root)).out
    assert "NOT PROVEN" in command(*words, "--expect", "0" * 64, code=20).out
