// The dialog that exports all plants into a file.

import { html } from "./lit-html/lit-html.js";
import { errorView, modal } from "./dialog.js";
import { readExport } from "./export.js";
import { saveFile } from "./files.js";
import { formatCount, formatPlants } from "./format.js";

const FORMATS = [
  {
    label: "Spreadsheet",
    about: "CSV that is safe to open, and not for an import",
    file: "plants-spreadsheet.csv",
    mediaType: "text/vnd.plantd.spreadsheet",
    headLines: 1,
  },
  {
    label: "CSV",
    about: "exact, for programs and imports",
    file: "plants.csv",
    mediaType: "text/csv",
    headLines: 1,
  },
  {
    label: "NDJSON",
    about: "exact, for programs and imports",
    file: "plants.ndjson",
    mediaType: "application/x-ndjson",
    headLines: 0,
  },
];

export class ExportDialog {
  /** How many rows there are, so far and in all; null while no export runs. */
  progress = null;
  error = "";
  #stop = new AbortController();

  constructor(app) {
    this.app = app;
  }

  view() {
    return modal(this.app, this, { title: "Export all plants" }, html`
      ${this.progress ? this.#running() : this.#choice()}
      ${errorView(this.error)}
      <div class="actions"><button @click=${() => this.app.closeDialog(this)}>Cancel</button></div>`);
  }

  onClosed() {
    this.#stop.abort();
  }

  #choice() {
    return html`
      <div class="choices">
        ${FORMATS.map((format) => html`
          <button @click=${() => this.#export(format)}>${format.label}</button> <span>${format.about}</span>`)}
      </div>`;
  }

  #running() {
    const { rows, total } = this.progress;
    return html`
      <progress aria-label="Exported" max=${Math.max(total, 1)} .value=${rows}></progress>
      <p>${formatCount(rows)} of ${formatPlants(total)}</p>`;
  }

  async #export(format) {
    this.error = "";
    this.#progressed(0, 0);
    const { signal } = this.#stop;
    const onProgress = (rows, total) => this.#progressed(rows, total);
    try {
      const { blob, rows } = await readExport(this.app.session.server, format, { onProgress, signal });
      saveFile(blob, format.file);
      this.app.closeDialog(this);
      this.app.announce(`Exported ${formatPlants(rows)} to ${format.file}.`);
    } catch (failure) {
      if (signal.aborted) return;
      this.error = `${failure.message}.`;
      this.progress = null;
      this.app.changed();
    }
  }

  #progressed(rows, total) {
    this.progress = { rows, total };
    this.app.changed();
  }
}
