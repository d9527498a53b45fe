// The plants on the screen, and what a person asked to see.

import { positionBefore, readPage } from "./keyset.js";
import { isSame } from "./plant.js";
import { countMatches, rankOf } from "./rank.js";
import { pagePlants } from "./screen.js";
import { pause } from "./server.js";

// However fast plants change, the page is read again no more often than this.
const REFRESH_MS = 500;

export class PlantList {
  /** What is asked for: the plants after a position, with a part of a name and a tag. */
  query = { after: null, name: "", tag: "" };
  /** The plants on the screen; null until there is an answer. */
  plants = null;
  /** Where the pages before and after the one on the screen are (keyset.js); null where there is none. */
  prev = null;
  next = null;
  /** How many plants there are, regardless of the page; null while a name is searched for. */
  total = null;
  /** How many plants come before the page (rank.js); null if that is not known. */
  rank = null;
  /** How many plants have the name that is searched for, as far as they are counted; null before. */
  matches = null;
  /** The `X-Events-After` of the page on the screen. */
  #cursor = null;
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
  async show(query, { target = null, rank = null } = {}) {
    const isOtherSearch = ["name", "tag"].some((filter) => query[filter] !== undefined && query[filter] !== this.query[filter]);
    if (isOtherSearch) this.matches = null;
    Object.assign(this.query, query);
    this.target = target;
    this.rank = rank;
    return this.#load((signal) => this.#readPage(signal));
  }

  /** Whether there is a page that is `first`, `previous` or `next`. */
  canTurn(to) {
    return { first: this.query.after, previous: this.prev, next: this.next }[to] !== null;
  }

  /** Turns to it. Returns whether it is shown. */
  async turn(to) {
    if (to === "first") return this.show({ after: null });
    // The page on the screen may be older than the rank and the query.
    if (this.isLoading) return false;
    if (to === "previous") {
      this.target = null;
      return this.#load((signal) => this.#readPageBefore(signal));
    }
    const { rank, plants, next } = this;
    return this.show(next, { rank: rank && { ...rank, after: next.after, before: rank.before + plants.length } });
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
      else await this.#carryOut((signal) => this.#readAgain(signal));
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
    return this.#carryOut(action);
  }

  /** Returns whether the action was carried out before another reading began. */
  async #carryOut(action) {
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
    if (this.failure === null && this.query.name) this.#count(signal);
    return this.failure === null;
  }

  async #readPage(signal) {
    const { after } = this.query;
    await this.#showPage(await this.#read({ after }, signal), after, signal);
  }

  /** The first page is as long as any other: the plants on the screen follow on those before them. */
  async #readPageBefore(signal) {
    const { plants: following, next } = this;
    const page = await this.#read(this.prev, signal);
    if (page.prev !== null) return this.#showPage(page, positionBefore(page.plants[0].id), signal);
    const plants = [...page.plants, ...following];
    page.plants = plants.slice(0, pagePlants());
    page.next = plants.length > page.plants.length ? { after: page.plants.at(-1).id } : next;
    return this.#showPage(page, null, signal);
  }

  #read(place, signal) {
    const onPart = ({ plants, searchedTo }) => {
      // An empty page may be filled in a moment.
      if (this.isLoading && plants.length > 0) this.plants = [...plants];
      this.searchedTo = searchedTo;
      this.#onChange();
    };
    return readPage(this.#server, this.query, place, { limit: pagePlants(), onPart, signal });
  }

  /** Shows a page that begins after a position. */
  async #showPage(page, after, signal) {
    const known = { server: this.#server, rank: this.rank, filter: this.query, signal };
    this.rank = await rankOf({ ...page, after }, known);
    this.query.after = after;
    this.#cursor = page.cursor;
    const { plants, prev, next, total } = page;
    Object.assign(this, { plants, prev, next, total, searchedTo: null, failure: null });
  }

  async #readAgain(signal) {
    const { plants: known, next } = this;
    await this.#readPage(signal);
    if (known === null) return;
    const knownById = new Map(known.map((plant) => [plant.id, plant]));
    // A plant that follows on the known ones has moved up from the next page.
    const isOfNextPage = ({ id }) => next && known.length > 0 && BigInt(id) > BigInt(known.at(-1).id);
    for (const plant of this.plants) {
      const old = knownById.get(plant.id);
      if (old ? !isSame(old, plant) : !isOfNextPage(plant)) this.fresh.add(plant.id);
    }
  }

  /** Counts the plants that match, unless the page shows how many there are. */
  async #count(signal) {
    const { rank, plants, next } = this;
    const cursor = this.#cursor;
    if (next === null && rank?.isExact) {
      this.matches = { number: rank.before + plants.length, isAll: true, cursor };
    } else if (this.matches?.cursor !== cursor) {
      // The list goes without this number until another page is read.
      this.matches = await countMatches(this.#server, this.query, signal).catch(() => this.matches);
    }
    if (!signal.aborted) this.#onChange();
  }
}
