"""Searches names in SQLite with FTS5 and its trigram tokenizer, to measure searches of plantd against:
  python search.py load FILE.ndjson DATABASE
  python search.py search DATABASE PART CONNECTIONS SECONDS
The first prints the number of plants; the second the latency of each search of the first page, in milliseconds.
"""

import sqlite3
import sys
import threading
import time

from batches import batches

PLANTS_IN_A_TRANSACTION = 10_000

# The tokenizer makes tokens of three characters, so a shorter part is compared with all names.
LONG = "SELECT rowid, name, tag FROM plants WHERE plants MATCH ? ORDER BY rowid LIMIT 100"
SHORT = "SELECT rowid, name, tag FROM plants WHERE name LIKE ? ORDER BY rowid LIMIT 100"


def load(file, path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE VIRTUAL TABLE plants USING fts5(name, tag UNINDEXED, tokenize = 'trigram')")
    for batch in batches(file, PLANTS_IN_A_TRANSACTION):
        database.execute("BEGIN")
        database.executemany("INSERT INTO plants (rowid, name, tag) VALUES (:id, :name, :tag)", batch)
        database.execute("COMMIT")
    print(database.execute("SELECT count(*) FROM plants").fetchone()[0])


def search(path, part, connections, seconds):
    statement, parameter = (LONG, f'"{part}"') if len(part) >= 3 else (SHORT, f"%{part}%")
    latencies = []
    end = time.perf_counter() + float(seconds)

    def searches():
        database = sqlite3.connect(path)
        while (begin := time.perf_counter()) < end:
            database.execute(statement, (parameter,)).fetchall()
            latencies.append((time.perf_counter() - begin) * 1000)

    threads = [threading.Thread(target=searches) for _ in range(int(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("\n".join(map(str, latencies)))


{"load": load, "search": search}[sys.argv[1]](*sys.argv[2:])
