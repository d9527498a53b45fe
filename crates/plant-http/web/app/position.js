// Where a page is in the list, as far as that is known: the server tells neither the place of a plant nor how many match a name.

import { Failure, nextAfter } from "./server.js";

// The most plants, and the most events, in one answer of the server.
const MOST = 1000;

const LARGEST_ID = 2n ** 63n - 1n;

const isUpTo = (id, last) => BigInt(id) <= BigInt(last);

/**
 * `before` plants of the list have ids up to `after`, at the time of `cursor`, a place in the events of the store. Events since
 * then make this inexact if their ids are up to `upTo`.
 */
export function markAt(after, before, cursor, { isExact = true, upTo = after } = {}) {
  return { after, before, cursor, isExact, upTo };
}

/** The mark at the time of a page that was read later; null if too much has happened, or if the events are not kept. */
export async function markAtTimeOf(server, mark, filter, { cursor }, signal) {
  if (mark === null || mark.cursor === cursor || mark.after === null) return mark;
  const events = await eventsSince(server, mark.cursor, signal);
  if (events === null) return null;
  const { after, before, isExact, upTo } = mark;
  const isWhole = !filter.name && !filter.tag;
  // An update moves no plant in the whole list. It may add one to a filtered list, or take one away.
  const moving = events.filter(({ id, kind }) => isUpTo(id, upTo) && !(isWhole && kind === "updated"));
  if (moving.length === 0) return markAt(after, before, cursor, { isExact });
  const counted = moving.filter(({ id }) => isWhole && isUpTo(id, after));
  const difference = counted.reduce((sum, { kind }) => sum + (kind === "created" ? 1 : -1), 0);
  // The page that was counted may have had some of these changes already.
  return markAt(after, Math.max(before + difference, 0), cursor, { isExact: false });
}

/** The events after a cursor, or null if they are too many or not kept. */
async function eventsSince(server, cursor, signal) {
  try {
    const { value } = await server.read(`events?${new URLSearchParams({ after: cursor, limit: MOST })}`, signal);
    return value.length < MOST ? value : null;
  } catch (error) {
    if (error instanceof Failure && !signal.aborted) return null;
    throw error;
  }
}

/**
 * The mark where a page begins. `mark` is null, or of the same time and where the page begins, or where the page begins that was
 * shown before and comes next.
 */
export function markOfPage(mark, { after, plants, hasMore, total, cursor }) {
  if (after === null) return markAt(null, 0, cursor);
  if (mark?.after === after && mark.isExact) return mark;
  if (!hasMore && total !== null) return markAt(after, total - plants.length, cursor, { upTo: LARGEST_ID });
  if (mark === null || mark.after === null) return null;
  const before = mark.before - plants.filter(({ id }) => isUpTo(id, mark.after)).length;
  return markAt(after, Math.max(before, 0), cursor, { isExact: mark.isExact, upTo: mark.upTo });
}

/** Counts the plants with a name, as far as one answer goes. `isAll` says whether there are no more. */
export async function countMatches(server, { name, tag }, signal) {
  const query = new URLSearchParams({ name, limit: MOST, ...(tag && { tag }) });
  const { headers, value } = await server.read(`plants?${query}`, signal);
  return { number: value.length, isAll: nextAfter(headers) === null, cursor: headers.get("X-Events-After") };
}
