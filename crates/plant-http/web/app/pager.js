// Where the page is in the list, and the controls that turn pages.

import { html } from "./lit-html/lit-html.js";
import { formatCount, formatPlants } from "./format.js";
import { shortcut } from "./keys.js";
import { isPhone } from "./screen.js";

const TURNS = [
  { to: "first", label: "First", sign: "«" },
  { to: "previous", label: "Previous", sign: "‹", key: "p" },
  { to: "next", label: "Next", sign: "›", key: "n" },
];

/** `place` tells the two of a page apart, for screen readers. */
export function pager(app, place) {
  const { list } = app.session;
  if (!TURNS.some(({ to }) => list.canTurn(to))) return null;
  const button = ({ to, label, sign, key }) => html`
    <button aria-label=${label} aria-keyshortcuts=${shortcut(key)}
      ?disabled=${!list.canTurn(to)} @click=${() => app.turnPage(to)}>${isPhone() ? sign : label}</button>`;
  return html`<nav class="pager" aria-label="Pages, ${place}">${TURNS.map(button)}</nav>`;
}

/** The range of the page, such as "101–200 of 48,998 plants". A number that may be wrong is not stated as exact. */
export function rangeText(list) {
  const { plants, next, rank, query } = list;
  const { after, name, tag } = query;
  if (list.isLoading) return searchProgress(list) || "Loading …";
  const isAll = after === null && next === null;
  if (plants.length === 0 && !(isAll && (name || tag))) return "";
  const filters = `${tag ? ` with the tag “${tag}”` : ""}${name ? ` matching “${name}”` : ""}`;
  if (isAll) return html`<b>${formatPlants(plants.length)}</b>${filters}`;
  const total = name ? matching(list) : formatPlants(list.total);
  const begin = rank?.before ?? 0;
  const numbers = plants.length === 1 ? [begin + 1] : [begin + 1, begin + plants.length];
  const range = rank ? numbers.map(formatCount).join("–") : formatCount(plants.length);
  const about = rank?.isExact === false ? "about " : "";
  return html`${about}${range} of <b>${total}</b>${filters}${rank ? "" : `, from id ${plants[0].id}`}`;
}

/** How many plants have the name that is searched for. A count that did not come to an end says at least how many. */
function matching({ plants, rank, matches }) {
  if (matches === null) return "… plants";
  if (matches.isAll) return formatPlants(matches.number);
  return `${formatCount(Math.max(matches.number, (rank?.before ?? 0) + plants.length))}+ plants`;
}

/** How far a long search has come. */
export function searchProgress({ searchedTo }) {
  return searchedTo ? `Searching … at id ${searchedTo}` : "";
}
