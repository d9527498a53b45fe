// The dialog that exports all plants into a file.

import { html } from "./lit-html/lit-html.js";
import { Failure } from "./server.js";
import { counted, save } from "./files.js";

const FORMATS = [
  { label: "CSV", accept: "text/csv", file: "plants.csv", headLines: 1, about: "for spreadsheets" },
  { label: "NDJSON", accept: "application/x-ndjson", file: "plants.ndjson", headLines: 0, about: "for programs" },
];

const NEWLINE = 10;
// So much text holds the last row of an export.
const LAST_ROW_MAX = 8192;
// Parts of this size go to the browser's own storage, so that the page holds little.
const PART_BYTES = 8 * 1024 * 1024;

const CUT_OFF = "The export was cut off on the way. Nothing was saved; try again.";

export class ExportDialog {
  /** How far the export is; null before it begins. */
  progress = null;
  error = "";
  #stop = new AbortController();

  constructor(app) {
    this.app = app;
  }

  view() {
    const { progress } = this;
    const close = () => {
      this.#stop.abort();
      this.app.closeDialog(this);
    };
    return html`
      <dialog aria-labelledby="dialog-title" @close=${close}>
        <h2 id="dialog-title">Export all plants</h2>
        ${progress
          ? html`
            <progress aria-label="Exported" max=${progress.total} .value=${progress.rows}></progress>
            <p>${counted(progress.rows)} of ${counted(progress.total)} plants</p>`
          : html`
            <div class="choices">
              ${FORMATS.map((format) => html`
                <button @click=${() => this.#export(format)}>${format.label}</button> <span>${format.about}</span>`)}
            </div>`}
        <p class="error" role="alert">${this.error}</p>
        <div class="actions"><button @click=${close}>Cancel</button></div>
      </dialog>`;
  }

  async #export(format) {
    this.error = "";
    this.progress = { rows: 0, total: 0 };
    this.app.changed();
    try {
      const { blob, rows } = await this.#read(format);
      save(blob, format.file);
      this.app.closeDialog(this);
      this.app.announce(`Exported ${counted(rows)} plants to ${format.file}.`);
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.error = error.message;
      this.progress = null;
      this.app.changed();
    }
  }

  /** Reads a whole export. */
  async #read({ accept, headLines }) {
    const { server } = this.app.session;
    const { signal } = this.#stop;
    const answer = await server.send("GET", "plants/export", { headers: { Accept: accept }, signal });
    const total = Number(answer.headers.get("X-Total-Count"));
    const blobs = [];
    let parts = [];
    let bytes = 0;
    let rows = -headLines;
    let end = "";
    const decoder = new TextDecoder();
    try {
      const reader = answer.body.getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        parts.push(part.value);
        bytes += part.value.length;
        // No name and no tag has a line end.
        for (const byte of part.value) rows += byte === NEWLINE ? 1 : 0;
        end = (end + decoder.decode(part.value, { stream: true })).slice(-LAST_ROW_MAX);
        if (bytes >= PART_BYTES) {
          blobs.push(new Blob(parts));
          [parts, bytes] = [[], 0];
        }
        this.progress = { rows: Math.max(rows, 0), total };
        this.app.changed();
      }
    } catch (error) {
      signal.throwIfAborted();
      throw new Failure(CUT_OFF);
    }
    if (rows < total && (await this.#hasMore(end))) throw new Failure(CUT_OFF);
    return { blob: new Blob([...blobs, ...parts], { type: accept }), rows };
  }

  /** Whether there are plants above the last row, which a proxy may have cut off unnoticed. */
  async #hasMore(end) {
    if (!end.endsWith("\n")) return true;
    const id = /\n(?:\{"id":)?(-?\d+)[^\n]*\n$/.exec(`\n${end}`)?.[1];
    const query = id === undefined ? "limit=1" : `limit=1&after=${id}`;
    const { value } = await this.app.session.server.read(`plants?${query}`, this.#stop.signal);
    return value.length > 0;
  }
}
