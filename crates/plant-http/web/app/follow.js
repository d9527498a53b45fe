// Notices changes of the store while the tab is visible.

import { linkTo, pause } from "./server.js";

// Browsers open at most six HTTP/1.1 connections to an origin, across all tabs. At most this many tabs hold one for a
// stream; the others poll.
const STREAM_SLOTS = 3;
const POLL_MS = 2000;
const RECONNECT_MS = 500;

// The server writes at least every 15 s. A connection that is silent for longer is dead.
const SILENCE_MS = 40_000;

/** Calls `onChange` once at the beginning and then after every change, until the server's signal ends it. */
export async function follow(server, onChange) {
  const { signal } = server;
  let cursor;
  while (!signal.aborted) {
    let pauseMs = POLL_MS;
    try {
      await tabIsVisible(signal);
      // Asks first, so that nothing is missed however the last round has ended.
      const { headers } = await server.read("events?after=now");
      const newest = linkTo("next", headers).after;
      if (cursor !== newest) onChange();
      cursor = newest;
      const hasStreamed = await withStreamSlot(async () => {
        cursor = await stream(server, cursor, onChange);
      });
      if (hasStreamed) pauseMs = RECONNECT_MS;
    } catch {
      // The next round asks again.
    }
    await pause(pauseMs, signal).catch(() => {});
  }
}

/** Holds one of the slots for streams while `action` runs. Returns false if there is none, or if the action fails. */
async function withStreamSlot(action) {
  // Without a secure connection, browsers have no locks.
  for (let slot = 1; navigator.locks && slot <= STREAM_SLOTS; slot++) {
    const outcome = await navigator.locks.request(`plants-stream-${slot}`, { ifAvailable: true }, async (lock) => {
      return lock && action().then(() => "streamed", () => "failed");
    });
    if (outcome) return outcome === "streamed";
  }
  return false;
}

/** Reads the stream of events after `cursor` while the tab is visible. Returns the cursor of the last event. */
async function stream(server, cursor, onChange) {
  const stop = new AbortController();
  const stopWhenHidden = () => document.hidden && stop.abort();
  document.addEventListener("visibilitychange", stopWhenHidden, { signal: stop.signal });
  stopWhenHidden();
  let silence = setTimeout(() => stop.abort(), SILENCE_MS);
  try {
    const headers = { Accept: "text/event-stream" };
    const answer = await server.send("GET", `events?after=${cursor}`, { headers, signal: stop.signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      clearTimeout(silence);
      silence = setTimeout(() => stop.abort(), SILENCE_MS);
      const lines = (rest + part.value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("id: ")) cursor = line.slice("id: ".length);
        if (line.startsWith("data: ")) onChange();
      }
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    clearTimeout(silence);
    stop.abort();
  }
  return cursor;
}

/** Waits until the tab is visible, or the signal ends the waiting. */
function tabIsVisible(signal) {
  const { promise, resolve } = Promise.withResolvers();
  const done = new AbortController();
  const check = () => (!document.hidden || signal.aborted) && resolve();
  document.addEventListener("visibilitychange", check, { signal: done.signal });
  signal.addEventListener("abort", check, { signal: done.signal });
  check();
  return promise.finally(() => done.abort());
}
