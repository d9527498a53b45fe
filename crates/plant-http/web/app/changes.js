// Deletes plants, and restores earlier versions of them. Both can be undone.

import { formatPlant } from "./format.js";
import { isSame, readPlant, replacePlant } from "./plant.js";

export class Changes {
  /** The ids of the plants that are being changed. */
  #underway = new Set();
  /** The toasts that offer an undo. */
  #offers = new WeakSet();

  constructor(app) {
    this.app = app;
  }

  delete(plant) {
    const { id } = plant;
    const gone = { id, isGone: true };
    return this.#change(id, async ({ server, list }) => {
      let stored = await readPlant(server, id);
      // Only what the person sees is deleted, and nothing newer.
      if (isSame(stored, plant)) stored = await replacePlant(server, stored, gone);
      if (!stored.isGone) {
        return this.app.announce(`${formatPlant(plant)} has just been changed and was not deleted. Look at it again.`);
      }
      list.remove(id);
      this.#offerUndo(`Deleted ${formatPlant(plant)}.`, gone, plant);
    });
  }

  /** Puts a version in the place of `current`, as in `replacePlant`. */
  restore(current, version) {
    return this.#change(version.id, async ({ server }) => {
      const stored = await replacePlant(server, current, version);
      if (isSame(stored, version)) this.#offerUndo(`Restored ${formatPlant(version)}.`, stored, current);
      else this.app.openConflict(version, stored);
    });
  }

  async #change(id, action) {
    const { session } = this.app;
    // A second click changes nothing.
    if (this.#underway.has(id)) return;
    this.#underway.add(id);
    await action(session).catch((failure) => this.app.announceFailure(session.server, failure));
    this.#underway.delete(id);
    session.list.refresh();
  }

  #offerUndo(text, now, before) {
    const undo = { label: "Undo", run: () => this.#undo(now, before) };
    this.#offers.add(this.app.announce(text, [undo, this.app.historyAction(now.id)]));
  }

  #undo(now, before) {
    return this.#change(now.id, async ({ server }) => {
      const stored = await replacePlant(server, now, before);
      // One of the two has a name.
      const plant = formatPlant({ ...now, ...before });
      if (isSame(stored, before)) return this.app.announce(`${plant} is ${before.isGone ? "deleted again" : "back"}.`);
      const did = now.isGone ? "added" : "changed";
      this.app.announce(`Someone else has ${did} plant ${now.id} in the meantime, so nothing was undone.`);
    });
  }

  /** Undoes the newest change that still offers it. */
  undoNewest() {
    const { toasts } = this.app;
    const newest = toasts.shown.find((toast) => this.#offers.has(toast));
    if (newest) toasts.act(newest);
  }
}
