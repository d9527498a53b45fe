// The plants that were deleted here and can come back.

import { addPlant, deletePlant, idempotencyKey } from "./plant.js";

export class Deletions {
  /** Each with the key of the create that brings it back; the last one at the end. */
  #deleted = [];
  #underway = new Set();

  get isEmpty() {
    return this.#deleted.length === 0;
  }

  /** Deletes a plant. Returns whether it is gone now, and undefined if that was underway already. */
  async delete(server, plant) {
    if (this.#underway.has(plant.id)) return undefined;
    this.#underway.add(plant.id);
    try {
      const isDeleted = await deletePlant(server, plant);
      if (isDeleted) this.#deleted.push({ plant, key: idempotencyKey() });
      return isDeleted;
    } finally {
      this.#underway.delete(plant.id);
    }
  }

  /** Adds the last plant again. Returns the plant, or undefined if there is none. */
  async undo(server) {
    const last = this.#deleted.pop();
    if (!last) return undefined;
    try {
      await addPlant(server, last.plant, last.key);
    } catch (failure) {
      // Another plant has its id: it cannot come back. Otherwise it may, later.
      if (failure.status !== 400) this.#deleted.push(last);
      throw failure;
    }
    return last.plant;
  }

  forget() {
    this.#deleted = [];
  }
}
