// The rank of a page is the number of plants before it. The server reports neither a rank nor the number of plants that match
// a name, so this derives both, as far as they can be known. A rank says that `before` plants had ids up to `after` at the
// event `cursor`, and whether that `isExact`.

import { linkTo, queryOf } from "./server.js";

// The most plants, and the most events, in one answer of the server.
const MOST = 1000;

/**
 * The rank of a page that begins `after` a position. `rank` is older: that of the same page, or, when a person turns back, of
 * the page after it. Null if unknown.
 */
export async function rankOf({ after, plants, next, total, cursor }, { server, rank, filter, signal }) {
  if (after === null) return { after, before: 0, cursor, isExact: true };
  if (next === null && total !== null) return { after, before: total - plants.length, cursor, isExact: true };
  if (rank === null || rank.after === null) return null;
  const isBefore = ({ id }) => BigInt(id) <= BigInt(rank.after);
  const events = rank.cursor === cursor ? [] : await eventsSince(server, rank.cursor, signal);
  if (events === null) return null;
  // An update moves no plant in the whole list. It may add one to a filtered list, or take one away.
  const isWhole = !filter.name && !filter.tag;
  const moving = events.filter((event) => isBefore(event) && !(isWhole && event.kind === "updated"));
  const difference = moving.reduce((sum, { kind }) => sum + (kind === "created" ? 1 : -1), 0);
  const before = rank.before + (isWhole ? difference : 0) - plants.filter(isBefore).length;
  // The page that was counted may have had some of these changes already.
  return { after, before: Math.max(before, 0), cursor, isExact: rank.isExact && moving.length === 0 };
}

/** The events after a cursor, or null if they are too many or not kept. */
async function eventsSince(server, cursor, signal) {
  const answer = await server.read(`events?${queryOf({ after: cursor, limit: MOST })}`, signal).catch(() => null);
  signal.throwIfAborted();
  return answer && answer.value.length < MOST ? answer.value : null;
}

/** Counts the plants with a name, as far as one answer goes. `isAll` says whether there are no more. */
export async function countMatches(server, { name, tag }, signal) {
  const { headers, value } = await server.read(`plants?${queryOf({ limit: MOST, name, tag })}`, signal);
  return { number: value.length, isAll: linkTo("next", headers) === null, cursor: headers.get("X-Events-After") };
}
