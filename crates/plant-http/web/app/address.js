// What is shown, as the part of the page's address after `#`. A reload, the back button and a link lead to it.

import { parseId } from "./plant.js";

/** The query of the list, and the id of the plant that is open or null. */
export function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const text = (name) => parameters.get(name) ?? "";
  const query = { after: parseId(text("after")), name: text("name"), tag: text("tag") };
  return { query, plant: parseId(text("plant")) };
}

/** Writes it. The back button leads to what was shown before a new place. */
export function writeAddress({ after, name, tag }, plant, { isNewPlace }) {
  const parameters = Object.entries({ after, name, tag, plant }).filter(([, value]) => value);
  const hash = `#${new URLSearchParams(parameters)}`;
  // The same place again is no step for the back button.
  if (hash === (location.hash || "#")) return;
  if (isNewPlace) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}
