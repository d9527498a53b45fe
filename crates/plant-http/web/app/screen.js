// What the screen has room for.

// The style sheets have the same limit.
const phone = matchMedia("(max-width: 640px)");

export const isPhone = () => phone.matches;

/** How many plants a page has. On a phone, a long page would be out of reach below its middle. */
export const pagePlants = () => (isPhone() ? 25 : 100);

/** Calls `action` when the screen becomes a phone's, or is one no longer. */
export function onScreenChange(action) {
  phone.addEventListener("change", action);
}
