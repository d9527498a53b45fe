// Pages of plants after a position (keyset pagination), forward and backward. Ids are texts, and BigInt where they are
// compared. A position is an id that no plant needs to have, or null for the beginning of the list.

import { nextAfter, queryOf } from "./server.js";

// The most plants in one answer of the server.
const PAGE_MAX_PLANTS = 1000;

const SMALLEST_ID = -(2n ** 63n);

/** The position of the page that begins with an id. */
export function positionBefore(id) {
  return BigInt(id) > SMALLEST_ID ? String(BigInt(id) - 1n) : null;
}

/**
 * Reads the page of up to `limit` plants after a position. `filter` has `name` and `tag`, empty for any. A long search
 * comes in several answers; `onPart` gets the page after each. The reading ends early once it has come to the id `until`.
 * The page's `cursor` is the first answer's `X-Events-After`: the page may lack the events after it.
 */
export async function readPage(server, filter, after, { limit, until, onPart = () => {}, signal }) {
  const page = { after, plants: [], position: after, hasMore: true, total: null, searchedTo: null, cursor: null };
  const hasArrived = () => until !== undefined && page.position !== null && BigInt(page.position) >= BigInt(until);
  while (page.hasMore && page.plants.length < limit && !hasArrived()) {
    const { name, tag } = filter;
    const query = queryOf({ limit: limit - page.plants.length, after: page.position, name, tag });
    const { headers, value } = await server.read(`plants?${query}`, signal);
    page.plants.push(...value);
    const next = nextAfter(headers);
    page.hasMore = next !== null;
    page.position = next ?? page.position;
    page.total = headers.has("X-Total-Count") ? Number(headers.get("X-Total-Count")) : null;
    page.cursor ??= headers.get("X-Events-After");
    page.searchedTo = headers.get("X-Searched-To");
    onPart(page);
  }
  page.hasMore &&= !hasArrived();
  return page;
}

/**
 * The position of the page of `limit` plants that ends at the id `last`. The server lists upward only, so this is an exponential search
 * downward: its first step is `distance`, and each further step is eight times as long. It then bisects the last step.
 */
export async function previousPosition(server, filter, last, { limit, distance, signal }) {
  const atBeginning = await readPage(server, filter, null, { limit, until: last, signal });
  if (!atBeginning.hasMore) return null;
  // Invariant: fewer than `limit` plants lie between `near` and `last`, and at least PAGE_MAX_PLANTS between `far` and
  // `last`. Ids are distinct, so the bisection ends before `near` and `far` are neighbors, unless plants are deleted
  // meanwhile.
  let near = BigInt(last);
  let far = null;
  let position = near - distance;
  for (;;) {
    const isBeginning = position < SMALLEST_ID;
    const after = isBeginning ? null : String(position);
    const page = await readPage(server, filter, after, { limit: PAGE_MAX_PLANTS, until: last, signal });
    const upToLast = page.plants.filter(({ id }) => BigInt(id) <= BigInt(last));
    const isWhole = !page.hasMore || upToLast.length < page.plants.length;
    if (isWhole && upToLast.length >= limit) return positionBefore(upToLast.at(-limit).id);
    if (isWhole && isBeginning) return null;
    if (isWhole) near = position;
    else far = isBeginning ? SMALLEST_ID - 1n : position;
    if (far !== null && near - far <= 1n) return after;
    distance *= 8n;
    position = far === null ? BigInt(last) - distance : (near + far) / 2n;
  }
}
