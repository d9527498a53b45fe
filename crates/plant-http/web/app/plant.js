// One plant: its id as a person types it, reading it with its revision, and changing it.

import { PRECONDITION_FAILED, plantJson } from "./server.js";

const JSON_BODY = { "Content-Type": "application/json" };
const MERGE_PATCH = { "Content-Type": "application/merge-patch+json" };

export const NOT_AN_ID = "An id is a whole number from -9223372036854775808 to 9223372036854775807.";

/** The canonical text of an id, or null if the text is none. */
export function parseId(text) {
  if (!/^\s*[+-]?\d+\s*$/.test(text)) return null;
  const id = BigInt(text.trim().replace("+", ""));
  return BigInt.asIntN(64, id) === id ? String(id) : null;
}

/** A key under which a create can be repeated. */
export function idempotencyKey() {
  // crypto.randomUUID is only there on secure connections.
  return `"${crypto.getRandomValues(new Uint32Array(4)).join("-")}"`;
}

/** Whether two plants have the same name and tag. */
export const isSame = (one, other) => one.name === other.name && (one.tag ?? "") === (other.tag ?? "");

/** The plant with its `etag`, or null if there is none with this id. */
export async function readPlant(server, id) {
  try {
    const { headers, value } = await server.read(`plants/${id}`);
    return { ...value, etag: headers.get("ETag") };
  } catch (failure) {
    if (failure.status === 404) return null;
    throw failure;
  }
}

/** Adds a plant. The key makes that safe to repeat. */
export async function addPlant(server, plant, key, signal) {
  const headers = { ...JSON_BODY, "Idempotency-Key": key };
  await server.sendWithRetry("POST", "plants", { headers, body: plantJson(plant), signal });
}

/**
 * Changes name and tag of the plant in the revision that was read. Returns null, or the plant as it is stored if someone
 * else has changed it, `{ isGone: true }` if someone has deleted it.
 */
export async function changePlant(server, { id, name, tag, etag }, signal) {
  const headers = { ...MERGE_PATCH, "If-Match": etag };
  const body = JSON.stringify({ name, tag: tag || null });
  try {
    await server.sendWithRetry("PATCH", `plants/${id}`, { headers, body, signal });
    return null;
  } catch (failure) {
    if (failure.number !== PRECONDITION_FAILED && failure.status !== 404) throw failure;
  }
  const stored = await readPlant(server, id);
  if (stored === null) return { isGone: true };
  // A first try may have been carried out without an answer.
  return isSame(stored, { name, tag }) ? null : stored;
}

/** Deletes the plant. Returns false if it is not what the person sees. A plant already gone counts as deleted. */
export async function deletePlant(server, plant) {
  const stored = await readPlant(server, plant.id);
  if (stored === null) return true;
  if (!isSame(stored, plant)) return false;
  try {
    await server.sendWithRetry("DELETE", `plants/${plant.id}`, { headers: { "If-Match": stored.etag } });
  } catch (failure) {
    if (failure.number === PRECONDITION_FAILED) return false;
    if (failure.status !== 404) throw failure;
  }
  return true;
}
