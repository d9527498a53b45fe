"""Receives webhooks of a Plant Store, and keeps a copy of the plants in SQLite.

It refuses what the store has not signed, handles each delivery once, and loads an export when events were lost.
"""

import json
import os
import sqlite3
import time
import traceback
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

from standardwebhooks import Webhook, WebhookVerificationError

WEBHOOK = Webhook(os.environ["WEBHOOK_SECRET"])
DATABASE = os.environ.get("DATABASE", "copy.db")
PORT = int(os.environ.get("PORT", "8090"))
EXPORT = Request(
    os.environ.get("PLANTS_URL", "http://127.0.0.1:8080") + "/plants/export",
    headers={"Authorization": f"Bearer {os.environ['PLANTS_TOKEN']}"},
)

# A delivery has at most 20,000 bytes.
BODY_MAX_BYTES = 65_536

# Deliveries come in order, one at a time. So once the next one is here, only a copy that was held up on its way can
# repeat an id, and 5 minutes after it was signed, its timestamp is refused; 10 if the clocks differ. An hour is ample.
# The newest id stays for as long as the store may repeat it, because only the next delivery removes old ids.
REMEMBERED_SECONDS = 3600

SCHEMA = """
CREATE TABLE IF NOT EXISTS plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT);
CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY, seen_at INTEGER NOT NULL);
"""
STORE_PLANT = "INSERT OR REPLACE INTO plants VALUES (:id, :name, :tag)"


def handle(delivery: str, body: bytes) -> None:
    """Stores the id of the delivery and the effect in one transaction, so that a repeat has no second effect."""
    webhook = json.loads(body)
    # The id of an ignored delivery is not stored: a `plants.test` comes out of order, and would remove the newest id.
    if webhook["type"] not in ("plants.changed", "plants.lost"):
        return
    # A repeat that comes while this request is still being handled waits for the end of the transaction.
    with closing(sqlite3.connect(DATABASE, timeout=60, isolation_level=None)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        if is_repeat(database, delivery):
            return
        if webhook["type"] == "plants.lost":
            replace_by_export(database)
        else:
            for event in webhook["data"]["events"]:
                apply(database, event)


def is_repeat(database: sqlite3.Connection, delivery: str) -> bool:
    now = int(time.time())
    seen_again = "UPDATE deliveries SET seen_at = ? WHERE id = ?"
    if database.execute(seen_again, (now, delivery)).rowcount > 0:
        return True
    database.execute("DELETE FROM deliveries WHERE seen_at < ?", (now - REMEMBERED_SECONDS,))
    database.execute("INSERT INTO deliveries VALUES (?, ?)", (delivery, now))
    return False


def apply(database: sqlite3.Connection, event: dict[str, Any]) -> None:
    if event["kind"] == "deleted":
        database.execute("DELETE FROM plants WHERE id = ?", (event["id"],))
    elif "plant" in event:
        database.execute(STORE_PLANT, {"tag": None, **event["plant"], "id": event["id"]})
    # A plant that has changed again is in a later event.


def replace_by_export(database: sqlite3.Connection) -> None:
    with urlopen(EXPORT, timeout=60) as response:
        # A loop over the lines of the response would not notice that an export is cut off.
        rows = response.read().splitlines()
    database.execute("DELETE FROM plants")
    database.executemany(STORE_PLANT, ({"tag": None, **json.loads(row)} for row in rows))


class Receiver(BaseHTTPRequestHandler):
    # In seconds, for a client that sends nothing.
    timeout = 15

    def do_POST(self) -> None:
        self.send_response(self.answer())
        self.end_headers()

    def answer(self) -> int:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_MAX_BYTES:
            return 413
        body = self.rfile.read(int(length))
        try:
            WEBHOOK.verify(body, dict(self.headers), json_parse=False)
        # The library raises a ValueError for a malformed signature.
        except (WebhookVerificationError, ValueError):
            return 400
        try:
            handle(self.headers["webhook-id"], body)
        except Exception:
            traceback.print_exc()
            return 500  # The store sends it again.
        return 204


if __name__ == "__main__":
    with closing(sqlite3.connect(DATABASE)) as database:
        database.executescript(SCHEMA)
    with ThreadingHTTPServer(("127.0.0.1", PORT), Receiver) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
