// The plants on the screen, and what a person asked to see.

import { PAGE_PLANTS, previousPosition, readPage } from "./keyset.js";
import { isSame } from "./plant.js";
import { pause } from "./server.js";

// However fast plants change, the page is read again no more often than this.
const REFRESH_MS = 500;

export class PlantList {
  /** What is asked for: the plants after a position, with a part of a name and a tag. */
  query = { after: null, name: "", tag: "" };
  /** The plants on the screen; null until there is an answer. */
  plants = null;
  hasMore = false;
  /** Where the next page begins. */
  #end = null;
  /** How many plants there are, regardless of the page; null while a name is searched for. */
  total = null;
  /** The id that a search has come to, while it goes on. */
  searchedTo = null;
  /** Whether a person waits for other plants. */
  isLoading = false;
  /** The ids of the plants that someone has just added or changed. */
  fresh = new Set();
  /** The id that a person has jumped to. */
  target = null;
  /** Why the server has refused to list the plants. */
  failure = null;

  #server;
  #onChange;
  #reading = new AbortController();
  #isRefreshing = false;
  #isRefreshAsked = false;

  constructor(server, onChange) {
    this.#server = server;
    this.#onChange = onChange;
  }

  /** Shows other plants. Returns whether they are shown, and not others that were asked for later. */
  async show(query, { target = null } = {}) {
    Object.assign(this.query, query);
    this.target = target;
    return this.#load((signal) => this.#readPage(signal));
  }

  next() {
    return this.show({ after: this.#end });
  }

  first() {
    return this.show({ after: null });
  }

  previous() {
    this.target = null;
    const [first, last] = [this.plants.at(0), this.plants.at(-1)];
    // The page before is likely to be as dense as this one.
    const distance = BigInt(PAGE_PLANTS) + (first ? BigInt(last.id) - BigInt(first.id) : 0n);
    return this.#load(async (signal) => {
      this.query.after = await previousPosition(this.#server, this.query, this.query.after, distance, signal);
      await this.#readPage(signal);
    });
  }

  /** Reads the same page again, soon. */
  async refresh() {
    this.#isRefreshAsked = true;
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    while (this.#isRefreshAsked && !this.#server.signal.aborted) {
      this.#isRefreshAsked = false;
      // A page that is being read may be older than the change.
      if (this.isLoading) this.#isRefreshAsked = true;
      else await this.#read((signal) => this.#readAgain(signal));
      await pause(REFRESH_MS, this.#server.signal).catch(() => {});
    }
    this.#isRefreshing = false;
  }

  /** Takes a plant that has just been deleted from the screen. */
  remove(id) {
    this.plants = this.plants?.filter((plant) => plant.id !== id) ?? null;
    this.#onChange();
  }

  /** The plant has been seen to be new. */
  wasSeen(id) {
    this.fresh.delete(id);
    this.#onChange();
  }

  /** Reads plants that a person waits for. */
  #load(action) {
    this.isLoading = true;
    this.failure = null;
    this.fresh.clear();
    this.#onChange();
    return this.#read(action);
  }

  /** Returns whether the action was carried out before another reading began. */
  async #read(action) {
    this.#reading.abort();
    const { signal } = (this.#reading = new AbortController());
    try {
      await action(signal);
    } catch (error) {
      if (signal.aborted || this.#server.signal.aborted) return false;
      this.failure = error;
    }
    this.isLoading = false;
    this.#onChange();
    return this.failure === null;
  }

  async #readPage(signal) {
    const onPart = ({ plants, searchedTo }) => {
      // An empty page may be filled in a moment.
      if (this.isLoading && plants.length > 0) this.plants = [...plants];
      this.searchedTo = searchedTo;
      this.#onChange();
    };
    const page = await readPage(this.#server, this.query, this.query.after, { onPart, signal });
    const { plants, hasMore, total } = page;
    this.#end = page.position;
    Object.assign(this, { plants, hasMore, total, searchedTo: null, failure: null });
  }

  async #readAgain(signal) {
    const known = this.plants && new Map(this.plants.map((plant) => [plant.id, plant]));
    await this.#readPage(signal);
    for (const plant of known ? this.plants : []) {
      const old = known.get(plant.id);
      if (!old || !isSame(old, plant)) this.fresh.add(plant.id);
    }
  }
}
