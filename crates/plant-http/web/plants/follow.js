// Notices changes of the store while the tab is visible.

import { nextLink, pause } from "./server.js";

// A browser opens at most six HTTP/1.1 connections to one origin, for all its tabs together. So many tabs may each keep
// one for a stream; the other tabs ask again and again.
const STREAMS = 3;
const POLL_MS = 2000;
const RECONNECT_MS = 500;

// The server writes at least every 15 s. A connection that is silent for longer is dead.
const SILENCE_MS = 40_000;

/** Calls `onChange` once at the beginning and then after every change, until the signal ends it. */
export async function follow(server, onChange, signal) {
  let cursor;
  while (!signal.aborted) {
    await isVisible(signal);
    // Asks first, so that nothing is missed however the last round has ended.
    const { headers } = await server.read("events?after=now", signal);
    const newest = nextLink(headers).searchParams.get("after");
    if (cursor !== newest) onChange();
    cursor = newest;
    const hasStreamed = await withPlace(async () => {
      cursor = await stream(server, cursor, onChange, signal);
    });
    await pause(hasStreamed ? RECONNECT_MS : POLL_MS, signal);
  }
}

/** Takes one of the places for a stream while `action` runs. Returns false if there is none, or the stream failed. */
async function withPlace(action) {
  for (let place = 1; navigator.locks && place <= STREAMS; place++) {
    const options = { ifAvailable: true };
    const outcome = await navigator.locks.request(`plants-stream-${place}`, options, async (lock) => {
      return lock && action().then(() => "streamed", () => "failed");
    });
    if (outcome) return outcome === "streamed";
  }
  // Without a secure connection, browsers have no locks.
  return false;
}

/** Reads the stream of events after `cursor` while the tab is visible. Returns the cursor that it has come to. */
async function stream(server, cursor, onChange, signal) {
  const stop = new AbortController();
  const ended = AbortSignal.any([signal, stop.signal]);
  const onHidden = () => document.hidden && stop.abort();
  document.addEventListener("visibilitychange", onHidden);
  let silence = setTimeout(() => stop.abort(), SILENCE_MS);
  try {
    const headers = { Accept: "text/event-stream" };
    const answer = await server.send("GET", `events?after=${cursor}`, { headers, signal: ended });
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
    document.removeEventListener("visibilitychange", onHidden);
  }
  return cursor;
}

/** Waits until the tab is visible, or the signal ends the waiting. */
function isVisible(signal) {
  const { promise, resolve } = Promise.withResolvers();
  const check = () => (!document.hidden || signal.aborted) && resolve();
  document.addEventListener("visibilitychange", check);
  signal.addEventListener("abort", check);
  check();
  return promise.finally(() => {
    document.removeEventListener("visibilitychange", check);
    signal.removeEventListener("abort", check);
  });
}
