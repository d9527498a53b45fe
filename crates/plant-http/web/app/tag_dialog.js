// The dialog that chooses a tag to list plants by.

import { html } from "./lit-html/lit-html.js";
import { errorView, modal } from "./dialog.js";
import { formatCount, sentence } from "./format.js";
import { linkTo, queryOf } from "./server.js";

// The most tags in one answer of the server.
const PAGE_MAX_TAGS = 1000;

export class TagDialog {
  /** The first tags, with the numbers of their plants; null until there is an answer. */
  tags = null;
  /** Whether these are all tags. */
  hasAll = true;
  text = "";
  error = "";
  /** Ends the reading of tags. */
  stop = new AbortController();

  constructor(app) {
    this.app = app;
    this.#read("");
  }

  /** Reads the tags that begin with a text. */
  async #read(prefix) {
    this.stop.abort();
    const { signal } = (this.stop = new AbortController());
    const query = queryOf({ limit: PAGE_MAX_TAGS, prefix });
    try {
      const { headers, value } = await this.app.session.server.read(`tags?${query}`, signal);
      this.tags = value;
      if (!prefix) this.hasAll = linkTo("next", headers) === null;
      this.error = "";
      // The person has typed while the first tags were read.
      if (!this.hasAll && this.text !== prefix) return this.#read(this.text);
    } catch (failure) {
      if (signal.aborted) return;
      this.error = sentence(failure.message);
    }
    this.app.draw();
  }

  #onInput = ({ target }) => {
    this.text = target.value;
    // All tags are here already, unless there are very many.
    if (!this.hasAll) this.#read(this.text);
    this.app.draw();
  };

  /** The arrow keys move from the text field through the tags. */
  #onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const stops = [...event.currentTarget.querySelectorAll("input, li button")];
    stops[stops.indexOf(document.activeElement) + step]?.focus();
  };

  view() {
    const text = this.text.toLowerCase();
    const isListed = ({ tag }) => !this.hasAll || tag.toLowerCase().includes(text);
    const listed = this.tags?.filter(isListed) ?? [];
    const hint = this.hasAll ? "" : "There are very many tags: type how one begins, in exactly these letters.";
    return modal(this.app, this, { title: "Choose a tag", className: "tags" }, html`
      <div class="find" @keydown=${this.#onKey}>
        <input class="wide" type="search" aria-label="Find a tag" placeholder="Find a tag" autocomplete="off" autofocus
          @input=${this.#onInput}>
        <p class="hint">${hint}</p>
        ${errorView(this.error)}
        <ul>${listed.map((count) => this.#choice(count))}</ul>
        ${this.tags && listed.length === 0 ? html`<p>No plant has such a tag.</p>` : null}
      </div>
      <div class="actions"><button @click=${() => this.app.closeDialog(this)}>Cancel</button></div>`);
  }

  #choice({ tag, plants }) {
    const choose = () => {
      this.app.closeDialog(this);
      this.app.show({ tag, after: null });
    };
    return html`
      <li><button @click=${choose}><span>${tag}</span> <span class="count">${formatCount(plants)}</span></button></li>`;
  }
}
