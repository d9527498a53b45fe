// The dialog that exports all plants, or those of the current search, into a file.

import { html } from "./lit-html/lit-html.js";
import { errorView, modal } from "./dialog.js";
import { readExport } from "./export.js";
import { saveFile } from "./files.js";
import { formatCount, formatPlants, sentence } from "./format.js";

const FORMATS = [
  {
    label: "Spreadsheet",
    about: "Safe to open in a spreadsheet program. Not for an import.",
    ending: "-spreadsheet.csv",
    mediaType: "text/vnd.plantd.spreadsheet",
    headLines: 1,
  },
  {
    label: "CSV",
    about: "Exact, for programs and for an import.",
    ending: ".csv",
    mediaType: "text/csv",
    headLines: 1,
  },
  {
    label: "NDJSON",
    about: "Exact, for programs and for an import.",
    ending: ".ndjson",
    mediaType: "application/x-ndjson",
    headLines: 0,
  },
];

const NO_FILTER = { name: "", tag: "" };

export class ExportDialog {
  /** How many rows there are, so far and in all; null while no export runs. */
  progress = null;
  error = "";
  stop = new AbortController();
  /** What the list shows, and whether just that is exported. */
  #filter;
  #isOfSearch;

  constructor(app) {
    this.app = app;
    const { name, tag } = app.session.list.query;
    this.#filter = { name, tag };
    this.#isOfSearch = this.#hasFilter;
  }

  get #hasFilter() {
    return Boolean(this.#filter.name || this.#filter.tag);
  }

  get isBusy() {
    return this.progress !== null;
  }

  /** The Escape key cancels a running export. */
  interrupt = () => this.app.closeDialog(this);

  view() {
    return modal(this.app, this, { title: "Export plants" }, html`
      ${this.isBusy ? this.#running() : this.#choice()}
      ${errorView(this.error)}
      <div class="actions"><button @click=${this.interrupt}>Cancel</button></div>`);
  }

  #choice() {
    return html`
      ${this.#hasFilter ? this.#plantsChoice() : html`<p>All plants are exported, in the format that you choose.</p>`}
      <ul class="choices">
        ${FORMATS.map((format, index) => html`
          <li>
            <button aria-describedby="format-${index}" ?autofocus=${index === 0} @click=${() => this.#export(format)}>
              ${format.label}
            </button>
            <span class="hint" id="format-${index}">${format.about}</span>
          </li>`)}
      </ul>`;
  }

  #plantsChoice() {
    const { name, tag } = this.#filter;
    const parts = [tag && `tag “${tag}”`, name && `name “${name}”`].filter(Boolean);
    const radio = (isOfSearch, label) => html`
      <label class="option">
        <input type="radio" name="plants" .checked=${this.#isOfSearch === isOfSearch}
          @change=${() => (this.#isOfSearch = isOfSearch)}>
        <span>${label}</span>
      </label>`;
    return html`
      <fieldset>
        <legend>Which plants</legend>
        ${radio(true, `The current search (${parts.join(", ")})`)} ${radio(false, "All plants")}
      </fieldset>`;
  }

  #running() {
    const { rows, total } = this.progress;
    if (total === null) {
      return html`<progress aria-label="Exported"></progress><p>${formatPlants(rows)} so far</p>`;
    }
    return html`
      <progress aria-label="Exported" max=${Math.max(total, 1)} .value=${rows}></progress>
      <p>${formatCount(rows)} of ${formatPlants(total)}</p>`;
  }

  async #export(format) {
    this.error = "";
    this.#progressed(0, null);
    const { signal } = this.stop;
    const onProgress = (rows, total) => this.#progressed(rows, total);
    const filter = this.#isOfSearch ? this.#filter : NO_FILTER;
    const file = `plants${this.#isOfSearch ? "-search" : ""}${format.ending}`;
    try {
      const { blob, rows } = await readExport(this.app.session.server, format, { filter, onProgress, signal });
      saveFile(blob, file);
      this.app.closeDialog(this);
      this.app.announce(`Exported ${formatPlants(rows)} to ${file}.`);
    } catch (failure) {
      if (signal.aborted) return;
      this.error = sentence(failure.message);
      this.progress = null;
      this.app.draw();
    }
  }

  #progressed(rows, total) {
    this.progress = { rows, total };
    this.app.draw();
  }
}
