// The page of plants that is on the screen, and what a person asked to see.

import { PAGE_PLANTS, before, previousPage, readPage } from "./pages.js";
import { pause } from "./server.js";

// However fast plants change, the page is read again no more often than this.
const REFRESH_MS = 500;

export class PlantList {
  /** What is asked for: the plants after a position, with a part of a name and a tag. */
  query = { after: null, name: "", tag: "" };
  /** The plants on the screen; null until there is an answer. */
  plants = null;
  hasMore = false;
  /** How many plants there are, regardless of the page; null while a name is searched for. */
  total = null;
  /** The id that a search has come to, while it goes on. */
  searchedTo = null;
  isLoading = false;
  /** The ids of the plants that someone has just added or changed. */
  fresh = new Set();
  /** The id that a person has jumped to. */
  target = null;
  /** Why the page could not be read, if the server has refused it. */
  failure = null;

  #server;
  #changed;
  #reading = new AbortController();
  #isRefreshing = false;
  #isRefreshAsked = false;

  constructor(server, changed) {
    this.#server = server;
    this.#changed = changed;
  }

  /** Shows other plants. */
  async show(query) {
    this.query = { ...this.query, ...query };
    this.fresh = new Set();
    this.failure = null;
    await this.#read((signal) => this.#readPage(signal, ({ plants }) => {
      // What has been found so far, but not an empty page that may be filled in a moment.
      if (plants.length > 0) this.plants = [...plants];
    }));
  }

  /** Reads the same page again, soon. */
  async refresh() {
    this.#isRefreshAsked = true;
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    while (this.#isRefreshAsked) {
      this.#isRefreshAsked = false;
      // A page that is being read may be older than the change.
      if (this.isLoading) this.#isRefreshAsked = true;
      else await this.#refreshOnce();
      await pause(REFRESH_MS);
    }
    this.#isRefreshing = false;
  }

  async #refreshOnce() {
    const known = new Map(this.plants?.map((plant) => [plant.id, plant]));
    const wasShown = this.plants !== null;
    const isFresh = ({ id, name, tag }) => {
      const old = known.get(id);
      return !old || old.name !== name || old.tag !== tag;
    };
    await this.#replaceReading(async (signal) => {
      const page = await this.#readPage(signal);
      this.fresh = new Set(wasShown ? page.plants.filter(isFresh).map(({ id }) => id) : []);
    });
  }

  /** Takes a plant from the page that has just been deleted. */
  drop(id) {
    this.plants = this.plants.filter((plant) => plant.id !== id);
    this.#changed();
  }

  async next() {
    this.target = null;
    await this.show({ after: this.plants.at(-1).id });
  }

  async previous() {
    this.target = null;
    const [first, last] = [this.plants.at(0), this.plants.at(-1)];
    // Where this page is dense, the one before is likely to be, too.
    const distance = BigInt(PAGE_PLANTS) + (first ? BigInt(last.id) - BigInt(first.id) : 0n);
    await this.#read(async (signal) => {
      this.query.after = await previousPage(this.#server, this.query, this.query.after, distance, signal);
      this.fresh = new Set();
      await this.#readPage(signal);
    });
  }

  async first() {
    this.target = null;
    await this.show({ after: null });
  }

  /** Shows the plants from an id on. */
  async jumpTo(id) {
    this.target = id;
    await this.show({ after: before(id) });
  }

  async #readPage(signal, onPart = () => {}) {
    const page = await readPage(this.#server, this.query, this.query.after, {
      onPart: (part) => {
        onPart(part);
        this.searchedTo = part.searchedTo;
        this.#changed();
      },
      signal,
    });
    const { plants, hasMore } = page;
    Object.assign(this, { plants, hasMore, searchedTo: null, total: page.total, failure: null });
    return page;
  }

  /** Ends all reading. */
  close() {
    this.#reading.abort();
  }

  /** Reads what a person waits for. */
  async #read(action) {
    this.isLoading = true;
    this.#changed();
    await this.#replaceReading(action);
  }

  /** Reads, unless another reading begins before this one has ended. */
  async #replaceReading(action) {
    this.#reading.abort();
    const { signal } = (this.#reading = new AbortController());
    try {
      await action(signal);
    } catch (error) {
      if (signal.aborted) return;
      this.failure = error;
    }
    this.isLoading = false;
    this.#changed();
  }
}
