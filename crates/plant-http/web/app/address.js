// What is shown, as the part of the page's address after `#`. A reload, the back button and a link lead to it. The browser
// also keeps, for a reload and the back button, how many plants come before.

import { parseId } from "./plant.js";
import { queryOf } from "./server.js";

/** The query of the list, the rank of its page or null, and the id of what is open: a plant, its history, or null. */
export function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const text = (name) => parameters.get(name) ?? "";
  const query = { after: parseId(text("after")), name: text("name"), tag: text("tag") };
  return { query, rank: history.state, plant: parseId(text("plant")), history: parseId(text("history")) };
}

/** Writes it. The back button leads to what was shown before a new place. `opened` has the `plant` or `history` that is open. */
export function writeAddress({ query, rank }, opened, { isNewPlace }) {
  const { after, name, tag } = query;
  const hash = `#${queryOf({ after, name, tag, ...opened })}`;
  // The same place again is no step for the back button.
  const isSame = hash === (location.hash || "#");
  if (isNewPlace && !isSame) history.pushState(rank, "", hash);
  else history.replaceState(rank, "", isSame ? null : hash);
}
