// What is in a file that a person is about to import.

import { CsvRecords } from "./csv.js";
import { mediaTypeOf } from "./files.js";
import { ElementRows, LineRows } from "./json_rows.js";
import { MEMBERS } from "./plant.js";
import { parse } from "./server.js";

const SHOWN_ROWS = 5;

const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

const FORMATS = {
  "text/csv": "CSV",
  "application/x-ndjson": "NDJSON: JSON, one plant on each line",
  "application/json": "JSON: an array of plants",
};

const NOT_TEXT = "This file is not a text in UTF-8. Choose a file with plants in CSV or JSON.";
const NO_PLANTS = "There are no plants in this file.";

/**
 * Reads a file to its end. Returns what is in it: `mediaType` and `format` (its name), `count` (the number of rows, so far),
 * `first` (the first rows, each with the texts `id`, `name` and `tag`), and `problem`, which says why there is nothing to
 * import, or is empty. `onProgress` gets the same before the end, with `read`: how much of the file has been read, from 0
 * to 1. Throws if the file cannot be read, or if the signal ends the reading.
 */
export async function previewOf(file, { onProgress, signal }) {
  const mediaType = await mediaTypeOf(file);
  const rows = rowsOf(mediaType);
  const preview = (read, problem) => {
    const content = contentOf(mediaType, rows);
    return { mediaType, format: FORMATS[mediaType], read, ...content, problem: content.problem || problem };
  };
  if (file.size === 0) return preview(1, "This file is empty.");
  if (await isNoText(file)) return preview(1, NOT_TEXT);
  const reader = file.stream().getReader();
  let bytes = 0;
  let shownPercent = -1;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (signal.aborted) await reader.cancel();
    signal.throwIfAborted();
    rows.read(bytes === 0 ? withoutByteOrderMark(part.value) : part.value);
    bytes += part.value.length;
    const percent = Math.floor((100 * bytes) / file.size);
    if (percent > shownPercent && bytes < file.size) onProgress(preview(bytes / file.size, ""));
    shownPercent = percent;
  }
  rows.finish();
  return preview(1, contentOf(mediaType, rows).count === 0 ? NO_PLANTS : "");
}

function rowsOf(mediaType) {
  // The first record of CSV is the header.
  if (mediaType === "text/csv") return new CsvRecords(SHOWN_ROWS + 1);
  return mediaType === "application/json" ? new ElementRows(SHOWN_ROWS) : new LineRows(SHOWN_ROWS);
}

function contentOf(mediaType, rows) {
  if (mediaType !== "text/csv") return { count: rows.count, first: rows.first.map(plantOfJson), problem: "" };
  const [header = [], ...records] = rows.first;
  const first = records.map((cells) => Object.fromEntries(header.map((column, index) => [column, cells[index] ?? ""])));
  return { count: Math.max(rows.count - 1, 0), first, problem: rows.count > 0 ? problemOf(header) : "" };
}

/** What is wrong with the header of a CSV file. The server accepts the same. */
function problemOf(header) {
  const expected = "The first line of a CSV file names its columns: id, name and, if there are tags, tag.";
  const unknown = header.find((column) => !MEMBERS.includes(column));
  if (unknown !== undefined) return `${expected} In this file it begins “${header.join(",").slice(0, 60)}”.`;
  const repeated = header.find((column, index) => header.indexOf(column) !== index);
  if (repeated) return `${expected} In this file, ${repeated} is there twice.`;
  const missing = ["id", "name"].filter((column) => !header.includes(column));
  return missing.length > 0 ? `${expected} In this file, ${missing.join(" and ")} is missing.` : "";
}

/** The texts of a row of JSON. A row that is no object has none, and fails in the import. */
function plantOfJson(json) {
  let row;
  try {
    row = parse(json);
  } catch {
    row = null;
  }
  const text = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  return Object.fromEntries(MEMBERS.map((column) => [column, text(row?.[column] ?? "")]));
}

async function isNoText(file) {
  const start = new Uint8Array(await file.slice(0, 65_536).arrayBuffer());
  try {
    // The last character may go on behind the start.
    return new TextDecoder("utf-8", { fatal: true }).decode(start, { stream: true }).includes("\0");
  } catch {
    return true;
  }
}

const withoutByteOrderMark = (bytes) => bytes.subarray(BYTE_ORDER_MARK.every((byte, index) => bytes[index] === byte) ? 3 : 0);
