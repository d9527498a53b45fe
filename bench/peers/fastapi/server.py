"""The create, the read and the list of a Plant Store, as they are quickly written with FastAPI and SQLite, to measure
plantd against:
  PLANTD_TOKEN=TOKEN python server.py --listen ADDRESS:PORT --data DIR
"""

import argparse
import os
import secrets
import signal
import socket
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

# Ids that every JSON reader represents exactly.
SMALLEST_ID = -(2**53) + 1
LARGEST_ID = 2**53 - 1

Id = Annotated[int, Field(ge=SMALLEST_ID, le=LARGEST_ID)]
Text = Annotated[str, Field(min_length=1, max_length=255)]


class Plant(BaseModel):
    id: Id
    name: Text
    tag: Text | None = None


class CreatedPlant(BaseModel):
    name: str
    tag: str | None = None


class Failure(Exception):
    """An answer other than success."""

    def __init__(self, status: int, error: int, message: str) -> None:
        self.status = status
        self.error = error
        self.message = message

    def answer(self) -> JSONResponse:
        headers = {"WWW-Authenticate": "Bearer"} if self.status == 401 else None
        content = {"error": self.error, "message": self.message}
        return JSONResponse(content, status_code=self.status, headers=headers)


class Database(threading.local):
    """One connection to SQLite per thread."""

    def __init__(self, path: Path) -> None:
        # Each statement commits by itself.
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        # Every commit is synced, so that an answer means that the plant is on disk.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS plants"
            " (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)"
        )
        self.execute = connection.execute


def make_app(database: Database, token: str) -> FastAPI:
    expected_credentials = f"Bearer {token}".encode()
    # SQLite allows one writer at a time, and its own busy handler sleeps too long between tries.
    writing = threading.Lock()

    async def authorize(authorization: Annotated[str, Header()] = "") -> None:
        if not secrets.compare_digest(authorization.encode(), expected_credentials):
            raise Failure(401, 2001, "send the header `Authorization: Bearer TOKEN`")

    app = FastAPI(dependencies=[Depends(authorize)], openapi_url=None)

    @app.exception_handler(Failure)
    async def answer_failure(request: Request, failure: Failure) -> JSONResponse:
        return failure.answer()

    @app.exception_handler(RequestValidationError)
    async def answer_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        messages = [f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors()]
        return Failure(400, 1004, "; ".join(messages)).answer()

    @app.exception_handler(HTTPException)
    async def answer_misdirected(request: Request, error: HTTPException) -> JSONResponse:
        return Failure(error.status_code, 4004, error.detail).answer()

    # Not `async`, so FastAPI runs it in a thread, and serves others while it waits for the disk.
    @app.post("/plants", response_model_exclude_none=True)
    def create_plant(plant: Plant) -> CreatedPlant:
        with writing:
            insertion = database.execute(
                "INSERT INTO plants (id, name, tag) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (plant.id, plant.name, plant.tag),
            )
        if insertion.rowcount == 0:
            raise Failure(400, 3001, f"a plant with id {plant.id} exists already; choose another id")
        return CreatedPlant(name=plant.name, tag=plant.tag)

    @app.get("/plants/{id}", response_model_exclude_none=True)
    def read_plant(id: Id) -> Plant:
        row = database.execute("SELECT id, name, tag FROM plants WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise Failure(404, 3002, f"there is no plant with id {id}")
        return Plant.model_construct(id=row[0], name=row[1], tag=row[2])

    @app.get("/plants", response_model_exclude_none=True)
    def list_plants(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[int, Query(ge=SMALLEST_ID - 1, le=LARGEST_ID)] = SMALLEST_ID - 1,
    ) -> list[Plant]:
        rows = database.execute(
            "SELECT id, name, tag FROM plants WHERE id > ? ORDER BY id LIMIT ?",
            (after, limit),
        )
        return [Plant.model_construct(id=row[0], name=row[1], tag=row[2]) for row in rows]

    return app


class Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        address, port = self.servers[0].sockets[0].getsockname()
        print(f"fastapi listening on http://{address}:{port}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True)
    parser.add_argument("--data", required=True, type=Path)
    options = parser.parse_args()
    address, port = options.listen.split(":")

    options.data.mkdir(parents=True, exist_ok=True)
    database = Database(options.data / "plants.db")
    config = uvicorn.Config(
        make_app(database, os.environ["PLANTD_TOKEN"]),
        host=address,
        port=int(port),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
    )
    # Uvicorn stops on the signal, and then raises the signal again.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    Server(config).run()


main()
