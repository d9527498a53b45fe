"""Follows the events of a Plant Store with httpx-sse, and prints a line for each."""

import json
import os
import time

import httpx
from httpx_sse import connect_sse


def follow(client: httpx.Client) -> None:
    """Follows, and connects again behind the last event whenever the connection ends."""
    headers: dict[str, str] = {}
    pause_s = 1.0
    while True:
        try:
            with connect_sse(client, "GET", "/events", headers=headers) as source:
                source.response.raise_for_status()
                print("connected", flush=True)
                for message in source.iter_sse():
                    if message.retry is not None:
                        pause_s = message.retry / 1000
                    if message.id:
                        headers["Last-Event-ID"] = message.id
                    # A bookmark has no data.
                    if message.data:
                        event = json.loads(message.data)
                        assert event["cursor"] == message.id
                        print("event", event["cursor"], event["kind"], event["id"], flush=True)
        except httpx.HTTPError as cause:
            print("closed", repr(cause), flush=True)
        time.sleep(pause_s)


if __name__ == "__main__":
    # Longer than the pause between two bookmarks.
    timeout = httpx.Timeout(10, read=45)
    authorization = {"Authorization": f"Bearer {os.environ['PLANTS_TOKEN']}"}
    with httpx.Client(
        base_url=os.environ["PLANTS_URL"],
        headers=authorization,
        timeout=timeout,
        # No proxy of the environment.
        trust_env=False,
    ) as client:
        follow(client)
