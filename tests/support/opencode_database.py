"""A database as OpenCode has it, with one session in it."""

import json
import re
import sqlite3


def write(directory, data, rows):
    """Write a session, given as its lines (one about the session, then its messages). Returns the database's path.
    `data` is the directory of recordings, which has the client's schema."""
    path = directory / "opencode.db"
    opened = sqlite3.connect(path)
    statements = (data / "opencode" / "schema.sql").read_text()
    for statement in re.findall(r"CREATE TABLE `(?:session|message|part)` .*?;", statements, re.DOTALL):
        opened.execute(statement)
    info = rows[0]["info"]
    values = {"id": info["id"], "project_id": "global", "slug": "s", "directory": info["directory"], "title": info["title"],
              "version": info["version"], "time_created": info["time"]["created"], "time_updated": info["time"]["updated"]}  # fmt: skip
    needed = {row[1]: 0 for row in opened.execute("pragma table_info(session)") if row[3] and row[4] is None}
    values = {**needed, **values}
    opened.execute(f"insert into session ({','.join(values)}) values ({','.join('?' * len(values))})", tuple(values.values()))
    for row in rows[1:]:
        moment = row["info"]["time"]["created"]
        found = {name: value for name, value in row["info"].items() if name not in ("id", "sessionID")}
        opened.execute("insert into message values (?,?,?,?,?)", (row["id"], info["id"], moment, moment, json.dumps(found)))
        for part in row["parts"]:
            found = {name: value for name, value in part.items() if name not in ("id", "sessionID", "messageID")}
            opened.execute("insert into part values (?,?,?,?,?,?)", (part["id"], row["id"], info["id"], moment, moment, json.dumps(found)))
    opened.commit()
    opened.close()
    return path
