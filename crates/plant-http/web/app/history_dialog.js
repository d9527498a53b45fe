// The dialog that tells who did what to a plant, and restores earlier versions. The plant may be deleted.

import { html } from "./lit-html/lit-html.js";
import { errorView, focusAfterRendering, modal, timeView } from "./dialog.js";
import { sentence } from "./format.js";
import { isSame } from "./plant.js";
import { linkTo, queryOf } from "./server.js";
import { compareWords, partChanged } from "./word_diff.js";

const PAGE_CHANGES = 25;

const VERBS = { created: "Added", updated: "Changed", deleted: "Deleted" };

export class HistoryDialog {
  stop = new AbortController();
  /** The changes that were read, newest first. */
  #changes = [];
  /** Where older ones are; null if there are none. */
  #next = {};
  /** Whether still older ones are forgotten. */
  #isCut = false;
  #isReading = false;
  #error = "";

  constructor(app, id) {
    Object.assign(this, { app, id });
    this.#read();
  }

  #read = async () => {
    const known = this.#shown.length;
    this.#isReading = true;
    this.#error = "";
    this.app.draw();
    try {
      const query = queryOf({ limit: PAGE_CHANGES, ...this.#next });
      const path = `plants/${this.id}/history?${query}`;
      const { headers, value } = await this.app.session.server.read(path, this.stop.signal);
      this.#changes.push(...value);
      this.#next = linkTo("next", headers);
      this.#isCut = headers.get("X-History-Complete") === "false";
    } catch (failure) {
      this.#error = sentence(failure.message);
    }
    this.#isReading = false;
    if (known > 0) focusAfterRendering(this.app, `li:nth-child(${known + 1})`);
    else this.app.draw();
  };

  /** The last change that was read is shown once the version before is known. */
  get #shown() {
    return this.#next ? this.#changes.slice(0, -1) : this.#changes;
  }

  #restore(plant) {
    const { app, id } = this;
    const [{ revision, plant: now }] = this.#changes;
    app.closeDialog(this);
    app.changes.restore(now ? { id, ...now, etag: `"${revision}"` } : { id, isGone: true }, { id, ...plant });
  }

  view() {
    const { app, id } = this;
    const shown = this.#shown;
    return modal(app, this, { title: `History of plant ${id}`, className: "entries" }, html`
      ${shown.length > 0
        ? html`
          <div class="scroll" tabindex="0" role="region" aria-label="Changes">
            <ol>${shown.map((change, index) => this.#change(change, index))}</ol>
          </div>`
        : null}
      ${this.#end()} ${errorView(this.#error)}
      <div class="actions">
        ${shown[0]?.plant ? html`<button @click=${() => app.open(id)}>Show the plant</button>` : null}
        <button class="primary" autofocus @click=${() => app.closeDialog(this)}>Close</button>
      </div>`);
  }

  #end() {
    if (this.#isReading) return html`<p class="hint">Loading …</p>`;
    if (this.#next && this.#changes.length > 0) return html`<button @click=${this.#read}>Show older changes</button>`;
    return this.#isCut ? html`<p class="hint">Older changes are forgotten.</p>` : null;
  }

  #change({ revision, kind, at, by, plant }, index) {
    // Not known of a plant that did not exist, and at the end of what is remembered.
    const before = this.#changes[index + 1]?.plant;
    const marked = before ? partChanged : ({ after }) => after;
    const partsOf = (member) => compareWords(before?.[member] ?? "", plant?.[member] ?? "").map(marked);
    const tag = partsOf("tag");
    const isOther = index > 0 && plant && !isSame(plant, this.#changes[0].plant ?? {});
    return html`
      <li tabindex="-1">
        <div id="revision-${revision}">
          <p class="hint">${VERBS[kind]}${by && html` by <b>${by}</b>`}, ${timeView(at)}</p>
          <p>${partsOf("name")} ${tag.length > 0 ? html`<span class="tag">${tag}</span>` : null}</p>
        </div>
        ${isOther && this.app.session.mayWrite
          ? html`<button aria-describedby="revision-${revision}" @click=${() => this.#restore(plant)}>Restore this version</button>`
          : null}
      </li>`;
  }
}
