// The keyboard shortcuts of the page.

import { nothing } from "./lit-html/lit-html.js";
import { focusActiveRow } from "./active_row.js";

const STORED_CHOICE = "plant-store-letters";
const OFF = "off";

/**
 * Every shortcut, as the keys dialog lists them. `isSingleKey` marks the ones that a person can turn off, because software
 * for speech input types characters by mistake (WCAG 2.1.4).
 */
export const SHORTCUTS = [
  { keys: ["/"], does: "Search plants", isSingleKey: true, run: () => document.querySelector(".search").select() },
  { keys: ["↑", "↓"], names: ["ArrowUp", "ArrowDown"], does: "Move between the plants", run: moveByOne },
  { keys: ["Page Up", "Page Down"], names: ["PageUp", "PageDown"], does: "Move by a screen", run: moveByScreen },
  { keys: ["Home", "End"], does: "Move to the first or last plant of the page", run: moveToEnd },
  { keys: ["Enter"], does: "Open the plant", run: null },
  { keys: ["n"], does: "Next page", isSingleKey: true, run: (app) => app.turnPage("next") },
  { keys: ["p"], does: "Previous page", isSingleKey: true, run: (app) => app.turnPage("previous") },
  { keys: ["a"], does: "Add a plant", isSingleKey: true, mayWrite: true, run: (app) => app.add() },
  { keys: ["Ctrl Z"], does: "Undo the last deletion or restore", mayWrite: true, run: (app) => app.changes.undoNewest() },
  { keys: ["?"], does: "Show this list", isSingleKey: true, run: (app) => app.showKeys() },
];

export const usesSingleKeys = () => localStorage.getItem(STORED_CHOICE) !== OFF;

/** The value of `aria-keyshortcuts` for a control with this key. */
export const shortcut = (key) => (key && usesSingleKeys() ? key : nothing);

export function setSingleKeys(isOn) {
  if (isOn) localStorage.removeItem(STORED_CHOICE);
  else localStorage.setItem(STORED_CHOICE, OFF);
}

/** Runs the shortcut of a key that was pressed, unless the key means something else where the focus is. */
export function pressKey(app, event) {
  const isElsewhere = app.dialog !== null || app.signIn !== null || document.querySelector(":popover-open") !== null;
  if (isElsewhere || event.defaultPrevented || event.target.closest("input, select, textarea")) return;
  const pressed = nameOf(event);
  const isMeant = ({ keys, names = keys, isSingleKey, mayWrite }) =>
    names.includes(pressed) && (!isSingleKey || usesSingleKeys()) && (!mayWrite || app.session.mayWrite);
  const run = SHORTCUTS.find(isMeant)?.run;
  if (!run) return;
  // A move that leads nowhere is left to the browser, which may scroll.
  if (run(app, pressed) !== false) event.preventDefault();
}

function nameOf({ key, altKey, ctrlKey, metaKey, shiftKey }) {
  const hasControl = ctrlKey || metaKey;
  if (hasControl && !shiftKey && !altKey && key.toLowerCase() === "z") return "Ctrl Z";
  return hasControl || altKey ? "" : key;
}

const isInRow = () => document.activeElement.closest(".plants tbody tr") !== null;

function moveByOne(app, key) {
  return isInRow() ? move(app, (index) => index + (key === "ArrowUp" ? -1 : 1)) : focusActiveRow();
}

function moveByScreen(app, key) {
  if (!isInRow()) return false;
  const rows = Math.floor(document.querySelector("main").clientHeight / document.activeElement.closest("tr").offsetHeight);
  return move(app, (index) => index + (key === "PageUp" ? -rows : rows));
}

function moveToEnd(app, key) {
  return isInRow() && move(app, (_index, last) => (key === "Home" ? 0 : last));
}

/** Moves the focus to another row of the page. */
function move({ session: { list }, activeRow }, to) {
  const last = list.plants.length - 1;
  const index = to(activeRow.indexIn(list.plants), last);
  const names = document.querySelectorAll(".plants .name a");
  // The row notes that it is active when it gets the focus.
  names[Math.max(0, Math.min(index, last))].focus();
}
