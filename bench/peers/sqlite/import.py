"""Loads a file of plants into SQLite, as it is quickly written, to measure an import of plantd against:
  python import.py FILE.ndjson DATABASE
Prints the number of plants that the database has then.
"""

import sqlite3
import sys

from batches import batches

PLANTS_IN_A_TRANSACTION = 1000

file, path = sys.argv[1:]
# This program begins and ends transactions itself.
database = sqlite3.connect(path, isolation_level=None)
database.execute("PRAGMA journal_mode = WAL")
# Every commit is synced, as plantd syncs each group of an import.
database.execute("PRAGMA synchronous = FULL")
database.execute("CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)")
database.execute("CREATE INDEX plants_of_tag ON plants (tag, id)")
for batch in batches(file, PLANTS_IN_A_TRANSACTION):
    database.execute("BEGIN")
    database.executemany("INSERT INTO plants VALUES (:id, :name, :tag)", batch)
    database.execute("COMMIT")
print(database.execute("SELECT count(*) FROM plants").fetchone()[0])
