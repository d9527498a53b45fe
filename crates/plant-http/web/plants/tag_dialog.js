// The dialog that chooses a tag to list plants by.

import { html } from "./lit-html/lit-html.js";
import { nextLink } from "./server.js";

const MOST_TAGS = 1000;

export class TagDialog {
  /** The first tags, with the numbers of their plants; null until there is an answer. */
  tags = null;
  /** Whether these are all tags. */
  hasAll = true;
  text = "";
  error = "";
  #reading = new AbortController();

  constructor(app) {
    this.app = app;
    this.#read("");
  }

  /** Reads the tags that begin with a text. */
  async #read(prefix) {
    this.#reading.abort();
    const { signal } = (this.#reading = new AbortController());
    const query = new URLSearchParams({ limit: MOST_TAGS });
    if (prefix) query.set("prefix", prefix);
    try {
      const { headers, value } = await this.app.session.server.read(`tags?${query}`, signal);
      this.tags = value;
      if (!prefix) this.hasAll = nextLink(headers) === null;
      this.error = "";
    } catch (failure) {
      if (signal.aborted) return;
      this.error = failure.message;
    }
    this.app.changed();
  }

  #onInput = (event) => {
    this.text = event.target.value;
    // All tags are here already, unless there are very many.
    if (!this.hasAll) this.#read(this.text);
    this.app.changed();
  };

  view() {
    const choose = (tag) => {
      this.app.closeDialog(this);
      this.app.show({ tag, after: null });
    };
    const text = this.text.toLowerCase();
    const isListed = ({ tag }) => !this.hasAll || tag.toLowerCase().includes(text);
    const listed = this.tags?.filter(isListed) ?? [];
    const hint = this.hasAll ? "" : "There are very many tags: type how one begins, in exactly these letters.";
    return html`
      <dialog class="tags" aria-labelledby="dialog-title" @close=${() => this.app.closeDialog(this)}>
        <h2 id="dialog-title">Choose a tag</h2>
        <input class="wide" type="search" aria-label="Find a tag" placeholder="Find a tag" autocomplete="off" autofocus
          @input=${this.#onInput}>
        <p class="hint">${hint}</p>
        <p class="error" role="alert">${this.error}</p>
        <ul>
          ${listed.map(({ tag, plants }) => html`
            <li><button @click=${() => choose(tag)}><span>${tag}</span> <span class="count">${plants}</span></button></li>`)}
        </ul>
        ${this.tags && listed.length === 0 ? html`<p>No plant has such a tag.</p>` : null}
        <div class="actions">
          <button @click=${() => this.app.closeDialog(this)}>Cancel</button>
        </div>
      </dialog>`;
  }
}
