"""What every client with conversations must do, asked of each on what it recorded: a prompt is found, a fork is cut right, damage is refused.

The danger prevented here: a fork with turns in it that the person had thrown away, without turns that were said, or with a line that the
client never wrote. What is special about a client stands in tests/support/known_clients.py, and what only it does in its own module.
"""

import json
import os
import zlib
from collections import Counter

import pytest

from casrewind import agents, errors
from casrewind.agents import event as events
from casrewind.agents import session_files, transcript, transcript_position
from casrewind.model.cursor import Cursor
from support import known_clients, unknown_lines
from support.known_clients import CONVERSATIONS, RECORDINGS
from support.recorded_session import DATA, NAMES, RECORDED, named
from support.transcripts import is_part_of, values
from support.unknown_lines import Planted

PLANTINGS = [(name, way) for name in RECORDINGS for way in unknown_lines.varieties(name.partition("/")[0])]
"""Each recording, and each kind of line that no client has written yet."""
UUID = "11111111-2222-4333-8444-555555555555"


def pytest_generate_tests(metafunc):
    if "client" in metafunc.fixturenames:
        metafunc.parametrize("client", known_clients.ask(metafunc.function.__name__, CONVERSATIONS), indirect=True)
    if "recording" in metafunc.fixturenames and "variety" not in metafunc.fixturenames:
        metafunc.parametrize("recording", RECORDINGS, indirect=True)


class Recording:
    """A recorded transcript, and what is known of it. `prompts` are those of the branch that was not left."""

    def __init__(self, name):
        self.client = agents.load_conversation_client(name.partition("/")[0])
        self.known = CONVERSATIONS[self.client.name]
        self.data = (DATA / f"{name}.jsonl").read_bytes()
        self.kinds, self.all = RECORDINGS[name]
        self.prompts = [text for text, _, *left in self.all if not left]
        self.is_three_turns = name in RECORDED.values()

    def texts(self, data):
        return [prompt.text for prompt in self.client.prompts(data)]

    def before(self, number):
        """What a fork before the prompt with a number has: by the record alone."""
        kept, rows = self.all[number][1], self.data.splitlines(keepends=True)
        if kept is None:
            return None
        return b"".join(b"".join(rows[start:end]) for start, end in ([(0, kept)] if isinstance(kept, int) else kept))

    def fork(self):
        """A fork before the last prompt: (its id, the cut, the fork)."""
        session = self.client.new_session_id() if self.client.name == "opencode" else UUID
        cut = self.client.cut_before_prompt(self.data, self.client.prompts(self.data)[-1])
        return session, cut, self.client.make_fork(self.data, cut, session, original="/sessions/x.jsonl", root="/nowhere")

    def cursor(self, data, prompt):
        """The cursor of the end of a prompt's turn, from its hook."""
        name = next(name for name, trigger in self.client.events.triggers.items() if trigger == "turn_end")
        turn = prompt.prompt_id or (prompt.message_id if self.client.name == "opencode" else "")
        payload = {"hook_event_name": name, self.client.events.fields["session"][0]: "s", "prompt_id": prompt.prompt_id, "turn_id": turn}
        found = events.read_event(self.client, json.dumps(payload).encode(), {}, self.client.event_argument(name))
        return transcript_position.cursor_at(self.client, data, found)


@pytest.fixture
def recording(request):
    return Recording(request.param)


@pytest.fixture
def client(request):
    """A client with the recording of its three turns."""
    return Recording(RECORDED[request.param])


def test_every_client_with_conversations_is_asked_and_every_gap_is_of_a_question():
    assert set(CONVERSATIONS) == set(RECORDED) == {client.name for client in agents.load_conversation_clients()}
    assert {name.partition("/")[0] for name in RECORDINGS} == set(CONVERSATIONS)
    assert {f"{path.parent.name}/{path.stem}" for name in CONVERSATIONS for path in (DATA / name).glob("*.jsonl")} == set(RECORDINGS)
    assert known_clients.LACKS.keys() <= globals().keys() | {"test_hooks_that_the_client_does_not_run_are_told_of", "test_a_variable_moves_the_client_s_files"}


def test_the_conversations_of_other_clients_are_refused():
    for name in set(agents.NAMES) - CONVERSATIONS.keys():
        with pytest.raises(errors.AgentError, match="casrewind restore REF"):
            agents.load_conversation_client(name)


def test_every_line_has_a_known_kind_and_no_byte_is_left_out(recording):
    found = list(transcript.parse_lines(recording.data))
    kinds = Counter(recording.client.kind_of_line(line.value) for line in found)
    assert kinds == recording.kinds and transcript.KINDS.issuperset(kinds) and transcript.UNKNOWN not in kinds
    assert b"".join(recording.data[line.start : line.end] for line in found) == recording.data
    assert [line.value for line in found] == values(recording.data) and list(transcript.parse_lines_backwards(recording.data)) == found[::-1]


def test_what_the_person_typed_is_found_and_nothing_else(recording):
    data = recording.data
    assert recording.texts(data) == recording.prompts
    assert [prompt.text for prompt in recording.client.prompts(data, every=True)] == [text for text, *_ in recording.all]
    for prompt in recording.client.prompts(data):
        line = json.loads(data[prompt.start : data.index(b"\n", prompt.start)])
        said = recording.known.names(line)
        assert said == (prompt.uuid, prompt.parent, prompt.prompt_id if said[2] is not None else None, prompt.message_id)
        assert prompt.time_ns > 1_795 * 10**15 and prompt.queued == ("attachment" in line)


def test_a_cut_is_the_transcript_s_own_lines_before_the_prompt(recording):
    """Also before a prompt of a branch that was left."""
    for number, prompt in enumerate(recording.client.prompts(recording.data, every=True)):
        kept = recording.client.cut_before_prompt(recording.data, prompt)
        assert kept == recording.before(number), prompt.text
        if kept is not None:
            texts = recording.texts(kept)
            assert texts == [text for text, *_ in recording.all if text in texts] and prompt.text not in texts
            assert prompt.text not in recording.prompts or texts == recording.prompts[: recording.prompts.index(prompt.text)]


def test_a_torn_last_line_is_no_prompt(recording):
    if recording.prompts:
        start = recording.client.prompts(recording.data)[-1].start
        end = recording.data.index(b"\n", start)
        for torn in (start + 1, start + 100, end):
            assert recording.texts(recording.data[:torn]) == recording.prompts[:-1]
        assert recording.texts(recording.data[: end + 1]) == recording.prompts


def places_in(recording):
    """The numbers of all lines, and of the end. A client whose first line names the session is not asked in front of that one."""
    return range(bool(recording.client.sessions.header), recording.data.count(b"\n") + 1)


def ask_with_planted(recording, variety, places):
    """With unknown lines at some places: the same prompts, cuts and ends, and none of these lines at an end."""
    client, data = recording.client, recording.data
    planted = Planted(client.name, data, variety, places)
    assert recording.texts(planted.data) == recording.prompts, (variety, places)
    plain, found = client.prompts(data, every=True), client.prompts(planted.data, every=True)
    assert [prompt.text for prompt in found] == [prompt.text for prompt in plain]
    for before, after in zip(plain, found, strict=True):
        kept = client.cut_before_prompt(planted.data, after)
        assert planted.plain(kept) == client.cut_before_prompt(data, before), (variety, places, before.text)
        assert not planted.ends_new(kept) and is_part_of(kept or b"", planted.data)
    return planted


def ends_of_turns(recording, planted):
    """The end of each turn, cut in the transcript that grew and in one whose start is another, as in a fork. Yields (cut, wanted)."""
    client, data = recording.client, recording.data
    rows = data.splitlines(keepends=True)
    for number, prompt in enumerate(client.prompts(data)):
        count = recording.all[number + 1][1] if number + 1 < len(recording.all) else len(rows)
        whole = planted.data[: planted.end_of(count)]
        wanted = client.cut_at_checkpoint(data, recording.cursor(b"".join(rows[:count]), prompt), "turn_end")
        cursor = recording.cursor(whole, client.prompts(planted.data)[number])
        yield client.cut_at_checkpoint(planted.data, cursor, "turn_end"), wanted
        if client.sessions.line_id and client.name != "opencode":
            moved = cursor._replace(prefix=b"x" * 32)
            if cursor.event_id.startswith("planted"):
                kept = client.cut_at_checkpoint(planted.data, moved, "turn_end")
                yield kept, wanted if client.name == "claude" else None


@pytest.mark.parametrize("recording, variety", PLANTINGS, indirect=["recording"], ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_lines_of_unknown_kinds_change_no_prompt_no_cut_and_no_end(recording, variety):
    """At all places at once, and alone at three places that follow each other from test to test."""
    places = places_in(recording)
    planted = ask_with_planted(recording, variety, places)
    if recording.is_three_turns:
        for kept, wanted in ends_of_turns(recording, planted):
            assert not planted.ends_new(kept) and (wanted is None or planted.plain(kept).startswith(wanted))
    start = zlib.crc32(repr(variety).encode()) % 7
    for place in (*places[start :: len(places) // 2], places[-1]):
        ask_with_planted(recording, variety, [place])


@pytest.mark.long
@pytest.mark.parametrize("recording, variety", PLANTINGS, indirect=["recording"], ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_lines_of_unknown_kinds_at_each_single_place(recording, variety):
    for place in places_in(recording):
        planted = ask_with_planted(recording, variety, [place])
        if recording.is_three_turns:
            for kept, wanted in ends_of_turns(recording, planted):
                assert not planted.ends_new(kept) and (wanted is None or planted.plain(kept).startswith(wanted)), place


def test_the_end_of_a_turn_is_where_the_next_one_starts(client):
    """Also where the hook ran before the turn's last lines were written."""
    prompts = client.client.prompts(client.data)
    for number, prompt in enumerate(prompts):
        whole = client.before(number + 1) if number < 2 else client.data
        kept = client.client.cut_at_checkpoint(client.data, client.cursor(whole, prompt), "turn_end")
        assert is_part_of(kept, client.data) and client.texts(kept) == client.prompts[: number + 1]
        assert whole.startswith(kept) and whole.count(b"\n") - kept.count(b"\n") < 2, "a line that is the next prompt's"


def test_what_is_not_in_this_transcript_is_refused(client):
    with pytest.raises(errors.AgentError, match="not in this transcript"):
        client.client.cut_before_prompt(client.data, client.client.prompts(client.data)[1]._replace(uuid="x", start=7))
    for cursor in (Cursor(offset=9, prefix=b"p" * 32, tail=b"t" * 32), Cursor(event_id="x", message_id="x", turn_id="msg_gone", offset=9, prefix=b"p" * 32)):
        with pytest.raises(errors.AgentError, match="not in this (transcript|conversation)"):
            client.client.cut_at_checkpoint(client.data, cursor, "turn_end")


def test_at_the_start_of_a_session_nothing_had_been_said(client):
    cursor = Cursor(turn_id="new") if client.client.name == "opencode" else Cursor()
    assert client.client.cut_at_checkpoint(client.data, cursor, "session_start") is None


def test_a_fork_has_the_new_id_and_else_the_lines_of_the_cut(client):
    session, cut, fork = client.fork()
    old = named(values(client.data)[0], client.client.sessions.header or ("sessionId",))
    again = fork.replace(session.encode(), old.encode()).splitlines(keepends=True)
    own = [line for line in again if line not in cut.splitlines(keepends=True)]
    assert len(own) == client.known.own_lines and session.encode() in fork and fork.endswith(b"\n")
    assert is_part_of(b"".join(line for line in again if line not in own), cut)
    assert len(again) - len(own) >= cut.count(b"\n") - 1, "but for the line that names the session"
    assert client.texts(fork) == client.prompts[:-1]


def test_a_fork_is_marked_once_in_its_title(client):
    session, _, fork = client.fork()
    title = client.client.title_of(client.data)
    twice = client.client.make_fork(fork, fork, session, root="/nowhere")
    assert title and client.client.title_of(fork) == client.client.title_of(twice) == client.known.fork_title.format(title=title, tag=session[:4])


def test_a_session_lies_where_the_client_looks_for_it_and_no_other_name_is_accepted(client, tmp_path):
    session, _, fork = client.fork()
    homes = session_files.Homes(str(tmp_path), {})
    first = os.path.join(client.client.usual_sessions_directory(str(tmp_path), {}), NAMES[client.client.name].format(session="old", short="old"))
    path = client.client.fork_path(first, session, fork)
    os.makedirs(os.path.dirname(path))
    session_files.refuse_unsafe_transcript_path(client.client, path, session, homes)
    names = (f"{session}.txt", "other.jsonl", "../../../../../config.jsonl", *(name.format(session=session, short=session[:8]) for name in client.known.bad_names))
    for name in client.known.more_names:
        session_files.refuse_unsafe_transcript_path(client.client, os.path.join(os.path.dirname(path), name.format(session=session)), session, homes)
    for name in names:
        with pytest.raises(errors.AgentError, match="refused"):
            session_files.refuse_unsafe_transcript_path(client.client, os.path.join(os.path.dirname(path), name), session, homes)
    variable, moved = known_clients.SETTINGS[client.client.name].moved
    away = session_files.Homes(str(tmp_path / "other"), {variable: str(tmp_path / client.client.places.home) if moved == "/moved" else str(tmp_path)})
    session_files.refuse_unsafe_transcript_path(client.client, path, session, away)
    assert client.client.sessions.resume.format(session="x") == client.known.resume.format("x")
