"""Loads a file of plants (NDJSON) into a new SQLite database, as durably as plantd does: python import.py FILE DATABASE"""

import itertools
import json
import sqlite3
import sys

file, path = sys.argv[1:]
database = sqlite3.connect(path, isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
database.execute("PRAGMA synchronous=FULL")
database.execute("CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)")
database.execute("CREATE INDEX plants_by_tag ON plants (tag, id)")
with open(file, encoding="utf-8") as lines:
    rows = ((plant["id"], plant["name"], plant.get("tag")) for plant in map(json.loads, lines))
    while batch := list(itertools.islice(rows, 1000)):
        database.execute("BEGIN")
        database.executemany("INSERT INTO plants VALUES (?, ?, ?)", batch)
        database.execute("COMMIT")
database.close()
