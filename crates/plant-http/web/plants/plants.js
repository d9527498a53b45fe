// One plant: reading it with its revision, and changing it.

import { PRECONDITION_FAILED, parse, plantJson } from "./server.js";

const JSON_BODY = { "Content-Type": "application/json" };
const MERGE_PATCH = { "Content-Type": "application/merge-patch+json" };

/** The plant as a person reads it in a sentence. */
export const described = ({ id, name }) => `“${name}” (${id})`;

export const isSame = (one, other) => one.name === other.name && (one.tag ?? "") === (other.tag ?? "");

/** The canonical text of an id that a person has typed, or null if it is no integer. */
export function canonicalId(text) {
  return /^\s*[+-]?\d+\s*$/.test(text) ? String(BigInt(text.trim().replace("+", ""))) : null;
}

/** A key under which one create can be repeated. */
export function idempotencyKey() {
  // crypto.randomUUID is only there on secure connections.
  return `"${crypto.getRandomValues(new Uint32Array(4)).join("-")}"`;
}

/** The plant with its `etag`, or null if there is none with this id. */
export async function readPlant(server, id) {
  try {
    const { headers, body } = await server.settle("GET", `plants/${id}`);
    return { ...parse(body), etag: headers.get("ETag") };
  } catch (failure) {
    if (failure.status === 404) return null;
    throw failure;
  }
}

/** Adds a plant. The key makes that safe to repeat. */
export async function addPlant(server, plant, key) {
  const headers = { ...JSON_BODY, "Idempotency-Key": key };
  await server.settle("POST", "plants", { headers, body: plantJson(plant) });
}

/**
 * Changes name and tag of the plant in the revision that was read. Returns null, or the plant as it is stored if someone
 * else has changed it, `{ isGone: true }` if someone has deleted it.
 */
export async function changePlant(server, { id, name, tag, etag }) {
  const body = JSON.stringify({ name, tag: tag || null });
  try {
    await server.settle("PATCH", `plants/${id}`, { headers: { ...MERGE_PATCH, "If-Match": etag }, body });
    return null;
  } catch (failure) {
    if (failure.number !== PRECONDITION_FAILED && failure.status !== 404) throw failure;
  }
  const stored = await readPlant(server, id);
  if (stored === null) return { isGone: true };
  // A first try may have been carried out without an answer.
  return isSame(stored, { name, tag }) ? null : stored;
}

/**
 * Deletes the plant if it is still what the person sees. Returns whether it is; a plant that is gone already counts as
 * deleted.
 */
export async function deletePlant(server, plant) {
  const stored = await readPlant(server, plant.id);
  if (stored === null) return true;
  if (!isSame(stored, plant)) return false;
  try {
    await server.settle("DELETE", `plants/${plant.id}`, { headers: { "If-Match": stored.etag } });
  } catch (failure) {
    if (failure.number === PRECONDITION_FAILED) return false;
    if (failure.status !== 404) throw failure;
  }
  return true;
}

