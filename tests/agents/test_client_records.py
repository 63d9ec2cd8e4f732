"""The clients as data: every client has what hooks need."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from casrewind import agents
from casrewind.agents import client as clients

RECORDS = {"events": clients.ClientEvents, "places": clients.ClientPlaces, "settings": clients.ClientSettings, "sessions": clients.SessionFormat}
PACKAGE = Path(agents.__file__).parent
LONG = 6
"""Fields of a record that a paragraph above them can still describe."""


@pytest.mark.parametrize("name", agents.NAMES)
def test_a_client_is_a_module_of_its_name_with_every_record(name):
    client = importlib.import_module(f"casrewind.agents.{name}").CLIENT
    assert client is agents.load_client(name) and client.name == name and client.title
    for attribute, record in RECORDS.items():
        if attribute != "sessions" or isinstance(client, clients.ConversationClient):
            assert isinstance(getattr(client, attribute), record)
    events = {client.events.before_tool, *client.events.by_tool, *client.events.budgets, *(hook.event for hook in client.settings.hooks)}
    assert events <= client.events.triggers.keys()


@pytest.mark.parametrize("client", agents.load_conversation_clients(), ids=lambda client: client.name)
def test_a_client_with_conversations_has_every_method_that_has_no_usual_way(client):
    for name, function in inspect.getmembers(clients.ConversationClient, inspect.isfunction):
        if "NotImplementedError" in inspect.getsource(function):
            assert getattr(type(client), name) is not function, name


def test_the_fields_of_long_records_are_documented_each():
    bare = []
    for path in sorted(PACKAGE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or "NamedTuple" not in [getattr(base, "id", "") for base in node.bases]:
                continue
            fields = [at for at, part in enumerate(node.body) if isinstance(part, ast.AnnAssign)]
            behind = [node.body[at + 1] if at + 1 < len(node.body) else None for at in fields]
            if len(fields) > LONG and not all(isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) for part in behind):
                bare.append(f"{path.name}: {node.name}")
    assert bare == []
