// Pages of plants after or before a position (keyset pagination). Ids are texts, and BigInt where they are compared. A
// position is an id that no plant needs to have, or null for the beginning of the list.

import { linkTo, queryOf } from "./server.js";

const SMALLEST_ID = -(2n ** 63n);

/** The position of the page that begins with an id. */
export function positionBefore(id) {
  return BigInt(id) > SMALLEST_ID ? String(BigInt(id) - 1n) : null;
}

/**
 * Reads up to `limit` plants: those `{ after }` a position, or the last ones `{ before }` one. `filter` has `name` and `tag`,
 * empty for any. A long search comes in several answers; `onPart` gets the page after each. The page's `prev` and `next` are
 * the places of its neighbors, null where there is none. Its `cursor` is the first answer's `X-Events-After`: the page may
 * lack the events after it.
 */
export async function readPage(server, filter, place, { limit, onPart = () => {}, signal }) {
  const page = { plants: [], prev: null, next: null, total: null, searchedTo: null, cursor: null };
  const [ahead, behind] = place.before ? ["prev", "next"] : ["next", "prev"];
  const { name, tag } = filter;
  for (let isFirst = true; isFirst || (page[ahead] && page.plants.length < limit); isFirst = false) {
    const query = queryOf({ limit: limit - page.plants.length, ...(page[ahead] ?? place), name, tag });
    const { headers, value } = await server.read(`plants?${query}`, signal);
    page.plants = ahead === "next" ? [...page.plants, ...value] : [...value, ...page.plants];
    page[ahead] = linkTo(ahead, headers);
    if (isFirst) page[behind] = linkTo(behind, headers);
    page.total = headers.has("X-Total-Count") ? Number(headers.get("X-Total-Count")) : null;
    page.cursor ??= headers.get("X-Events-After");
    page.searchedTo = headers.get("X-Searched-To");
    onPart(page);
  }
  return page;
}
