// Deletes plants, and brings them back.

import { formatPlant, sentence } from "./format.js";
import { addPlant, deletePlant, idempotencyKey } from "./plant.js";

export class Deletions {
  /** The ids of the plants that are being deleted. */
  #underway = new Set();
  /** The toasts that offer to undo a deletion. */
  #offers = new WeakSet();

  constructor(app) {
    this.app = app;
  }

  async delete(plant) {
    const { server, list } = this.app.session;
    // A second click changes nothing.
    if (this.#underway.has(plant.id)) return;
    this.#underway.add(plant.id);
    try {
      if (await deletePlant(server, plant)) {
        list.remove(plant.id);
        this.#offerUndo(plant, idempotencyKey(), `Deleted ${formatPlant(plant)}.`);
      } else {
        this.app.announce(`${formatPlant(plant)} has just been changed and was not deleted. Look at it again.`);
      }
    } catch (failure) {
      this.app.announceFailure(server, failure);
    }
    this.#underway.delete(plant.id);
    list.refresh();
  }

  #offerUndo(plant, key, text) {
    const action = { label: "Undo", run: () => this.#undo(plant, key) };
    this.#offers.add(this.app.announce(text, { action }));
  }

  /** Adds the plant again. The key makes that safe to repeat. */
  async #undo(plant, key) {
    const { server, list } = this.app.session;
    try {
      await addPlant(server, plant, key);
      this.app.announce(`${formatPlant(plant)} is back.`);
    } catch (failure) {
      // 400: its id is taken, so it cannot come back. After any other failure, offer the undo again.
      if (failure.status === 400) this.app.announceFailure(server, failure);
      else if (!server.signal.aborted) this.#offerUndo(plant, key, sentence(failure.message));
    }
    list.refresh();
  }

  /** Undoes the newest deletion that still offers it. */
  undoNewest() {
    const { toasts } = this.app;
    const newest = toasts.shown.find((toast) => this.#offers.has(toast));
    if (newest) toasts.act(newest);
  }
}
