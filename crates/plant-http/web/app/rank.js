// The rank of a page is the number of plants before it. The server reports neither a rank nor the number of plants that match
// a name, so this derives both, as far as they can be known.

import { Failure, linkTo, queryOf } from "./server.js";

// The most plants, and the most events, in one answer of the server.
const MOST = 1000;

const LARGEST_ID = 2n ** 63n - 1n;

const isUpTo = (id, last) => BigInt(id) <= BigInt(last);

/**
 * A rank: `before` plants have ids up to `after`, as of the event `cursor`. Later events with ids up to `upTo` make it
 * inexact.
 */
export function rankAt(after, before, cursor, { isExact = true, upTo = after } = {}) {
  return { after, before, cursor, isExact, upTo };
}

/** The rank as of a page that was read later; null if too much has happened, or if the events are not kept. */
export async function rankAfterEvents(server, rank, filter, { cursor }, signal) {
  if (rank === null || rank.cursor === cursor || rank.after === null) return rank;
  const events = await eventsSince(server, rank.cursor, signal);
  if (events === null) return null;
  const { after, before, isExact, upTo } = rank;
  const isWhole = !filter.name && !filter.tag;
  // An update moves no plant in the whole list. It may add one to a filtered list, or take one away.
  const moving = events.filter(({ id, kind }) => isUpTo(id, upTo) && !(isWhole && kind === "updated"));
  if (moving.length === 0) return rankAt(after, before, cursor, { isExact });
  const counted = moving.filter(({ id }) => isWhole && isUpTo(id, after));
  const difference = counted.reduce((sum, { kind }) => sum + (kind === "created" ? 1 : -1), 0);
  // The page that was counted may have had some of these changes already.
  return rankAt(after, Math.max(before + difference, 0), cursor, { isExact: false });
}

/** The events after a cursor, or null if they are too many or not kept. */
async function eventsSince(server, cursor, signal) {
  try {
    const { value } = await server.read(`events?${queryOf({ after: cursor, limit: MOST })}`, signal);
    return value.length < MOST ? value : null;
  } catch (error) {
    if (error instanceof Failure && !signal.aborted) return null;
    throw error;
  }
}

/**
 * The rank of a page. `rank` belongs to the same moment: it is where this page begins, or, when a person turns back, where the
 * page after it begins; null if unknown.
 */
export function rankOfPage(rank, { after, plants, next, total, cursor }) {
  if (after === null) return rankAt(null, 0, cursor);
  if (rank?.after === after && rank.isExact) return rank;
  if (next === null && total !== null) return rankAt(after, total - plants.length, cursor, { upTo: LARGEST_ID });
  if (rank === null || rank.after === null) return null;
  const before = rank.before - plants.filter(({ id }) => isUpTo(id, rank.after)).length;
  return rankAt(after, Math.max(before, 0), cursor, { isExact: rank.isExact, upTo: rank.upTo });
}

/** Counts the plants with a name, as far as one answer goes. `isAll` says whether there are no more. */
export async function countMatches(server, { name, tag }, signal) {
  const { headers, value } = await server.read(`plants?${queryOf({ limit: MOST, name, tag })}`, signal);
  return { number: value.length, isAll: linkTo("next", headers) === null, cursor: headers.get("X-Events-After") };
}
