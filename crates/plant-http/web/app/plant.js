// One plant: its id as a person types it, reading it with its revision, and replacing it.

import { PRECONDITION_FAILED } from "./server.js";

export const NOT_AN_ID = "An id is a whole number from -9223372036854775808 to 9223372036854775807.";

/** The canonical text of an id, or null if the text is none. */
export function parseId(text) {
  if (!/^\s*[+-]?\d+\s*$/.test(text)) return null;
  const id = BigInt(text.trim().replace("+", ""));
  return BigInt.asIntN(64, id) === id ? String(id) : null;
}

/** A plant of empty texts; as mistakes, none. */
export const BLANK = { id: "", name: "", tag: "" };

export const MEMBERS = Object.keys(BLANK);

const TEXTS = MEMBERS.slice(1);

/** Whether two plants have the same texts, or both are gone. */
export const isSame = (one, other) => TEXTS.every((text) => (one[text] ?? "") === (other[text] ?? ""));

/** The plant with its `etag`, or `{ id, isGone: true }` if there is none with this id. */
export async function readPlant(server, id) {
  try {
    const { headers, value } = await server.read(`plants/${id}`);
    return { ...value, etag: headers.get("ETag") };
  } catch (failure) {
    if (failure.status === 404) return { id, isGone: true };
    throw failure;
  }
}

/**
 * Stores `wanted` in place of `current`: each is a plant, or `{ id, isGone: true }` for none, and `current` has its `etag`.
 * Returns what is stored afterwards: something else than `wanted` if another client was faster.
 */
export async function replacePlant(server, current, wanted, signal) {
  const { id, isGone } = wanted;
  const condition = current.isGone ? { "If-None-Match": "*" } : { "If-Match": current.etag };
  const headers = { "Content-Type": "application/json", ...condition };
  const texts = TEXTS.filter((text) => wanted[text]);
  const request = isGone ? { headers: condition } : { headers, body: JSON.stringify(wanted, texts) };
  try {
    const answer = await server.sendWithRetry(isGone ? "DELETE" : "PUT", `plants/${id}`, { ...request, signal });
    return { ...wanted, etag: answer.headers.get("ETag") };
  } catch (failure) {
    if (failure.number !== PRECONDITION_FAILED && failure.status !== 404) throw failure;
    // A first try may have been carried out without an answer.
    return readPlant(server, id);
  }
}
