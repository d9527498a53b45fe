// Reads a whole export, or fails.

import { readPage } from "./keyset.js";
import { Failure, queryOf } from "./server.js";

const NEWLINE = 10;

// The last row of an export is shorter.
const LAST_ROW_MAX_CHARACTERS = 8192;

// Parts of this size go to the browser's own storage, so that the page holds little.
const PART_BYTES = 8 * 1024 * 1024;

const cutOff = (orWhat = "") => new Failure(`the export was cut off on the way${orWhat}. Nothing was saved; try again`);

/**
 * Reads an export as a Blob, with the number of its rows. `mediaType` is its format, and `headLines` says how many lines
 * that has before the first row. `filter` has `name` and `tag`, empty for any. `onProgress` gets the rows so far, and the
 * rows in all, or null where the server does not count them.
 */
export async function readExport(server, { mediaType, headLines }, { filter, onProgress, signal }) {
  const answer = await server.send("GET", `plants/export?${queryOf(filter)}`, { headers: { Accept: mediaType }, signal });
  const counted = answer.headers.get("X-Total-Count");
  const total = counted === null ? null : Number(counted);
  const blobs = [];
  let parts = [];
  let bytes = 0;
  let rows = 0 - headLines;
  let end = "";
  const decoder = new TextDecoder();
  try {
    const reader = answer.body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      parts.push(part.value);
      bytes += part.value.length;
      // No name and no tag has a line end.
      for (const byte of part.value) rows += byte === NEWLINE ? 1 : 0;
      end = (end + decoder.decode(part.value, { stream: true })).slice(-LAST_ROW_MAX_CHARACTERS);
      if (bytes >= PART_BYTES) {
        blobs.push(new Blob(parts));
        [parts, bytes] = [[], 0];
      }
      onProgress(Math.max(rows, 0), total);
    }
  } catch {
    signal.throwIfAborted();
    server.signal.throwIfAborted();
    throw cutOff();
  }
  if (end !== "" && !end.endsWith("\n")) throw cutOff();
  const mayLackPlants = total === null || rows < total;
  if (mayLackPlants && (await doPlantsFollow(server, filter, end, signal))) {
    // Without the number of the rows, the two look the same.
    throw cutOff(total === null ? ", or there is a new plant" : "");
  }
  return { blob: new Blob([...blobs, ...parts], { type: mediaType }), rows };
}

/**
 * Whether plants follow the last row. A proxy can make a truncated export look complete (docs/api.md, "Export"). An export
 * with fewer rows than announced is complete if the missing plants were deleted while it ran.
 */
async function doPlantsFollow(server, filter, end, signal) {
  const lastId = /\n(?:\{"id":)?(-?\d+)[^\n]*\n$/.exec(`\n${end}`)?.[1] ?? null;
  const { plants } = await readPage(server, filter, { after: lastId }, { limit: 1, signal });
  return plants.length > 0;
}
