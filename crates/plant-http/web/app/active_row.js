// The row that the Tab key leads to. The arrow keys lead from it to the others, so that a full page is one stop and not hundreds.

export class ActiveRow {
  #id = null;
  #index = 0;

  /** Its index among the plants on the screen. If its plant has gone, the row that took its place. */
  indexIn(plants) {
    const index = plants.findIndex(({ id }) => id === this.#id);
    return index >= 0 ? index : Math.max(Math.min(this.#index, plants.length - 1), 0);
  }

  set(id, index) {
    this.#id = id;
    this.#index = index;
  }

  /** On another page, the first row. */
  reset() {
    this.set(null, 0);
  }
}

/** Moves the focus to the name in the active row. Returns whether there is one. */
export function focusActiveRow(options) {
  const name = document.querySelector(".plants .name a[tabindex='0']");
  name?.focus(options);
  return name !== null;
}
