// The dialog that imports plants from a file.

import { html } from "./lit-html/lit-html.js";
import { errorView, modal } from "./dialog.js";
import { csvOf, mediaTypeOf, rowsAt, saveFile } from "./files.js";
import { formatCount, formatPlants } from "./format.js";

const ON_CONFLICT = [
  ["error", "report the row"],
  ["skip", "keep the stored plant"],
  ["replace", "replace the stored plant"],
];

const STORED_ROWS = "Rows that had arrived are stored.";

export class ImportDialog {
  onConflict = "error";
  file = null;
  /** How much of the file has been sent, from 0 to 1; null while no import runs. */
  progress = null;
  report = null;
  error = "";
  #stop = null;

  constructor(app) {
    this.app = app;
  }

  /** Only "Stop" ends a running import, and not the Escape key. */
  get isBusy() {
    return this.progress !== null;
  }

  view() {
    return modal(this.app, this, { title: "Import plants" }, html`
      ${this.#content()}
      ${errorView(this.error)}
      <div class="actions">
        ${this.isBusy
          ? html`<button @click=${() => this.#stop.abort()}>Stop</button>`
          : html`<button class=${this.report ? "primary" : ""} @click=${() => this.app.closeDialog(this)}>Close</button>`}
      </div>`);
  }

  #content() {
    if (this.isBusy) return this.#running();
    return this.report ? this.#done() : this.#choice();
  }

  #choice() {
    const onFile = ({ target }) => target.files.length > 0 && this.start(target.files[0]);
    return html`
      <p>A CSV file whose first line names the columns <code>id</code>, <code>name</code> and <code>tag</code>, or one
        plant in JSON on each line, as an export has them.</p>
      <div class="field">
        <label for="on-conflict">If an id is taken</label>
        <select id="on-conflict" @change=${({ target }) => (this.onConflict = target.value)}>
          ${ON_CONFLICT.map(([value, label]) => html`
            <option value=${value} ?selected=${value === this.onConflict}>${label}</option>`)}
        </select>
      </div>
      <div class="drop">
        <label for="import-file">Choose a file, or drop one anywhere on the page</label>
        <input id="import-file" type="file" accept=".csv,.ndjson,.jsonl,.json,text/csv,application/json" autofocus
          @change=${onFile}>
      </div>`;
  }

  #running() {
    const isSent = this.progress === 1;
    return html`
      <p>${this.file.name}</p>
      <progress aria-label="Sent" max="1" .value=${this.progress}></progress>
      <p>${isSent ? "Storing the last rows …" : `${Math.floor(this.progress * 100)} %`}</p>`;
  }

  #done() {
    const { created, replaced, skipped, failed, errors } = this.report;
    const outcomes = [["added", created], ["replaced", replaced], ["kept as they were", skipped], ["failed", failed]];
    const isShown = ([label, count]) => label === "added" || count !== "0";
    return html`
      <dl class="outcomes" aria-live="polite">
        ${outcomes.filter(isShown).map(([label, count]) => html`<div><dt>${label}</dt><dd>${formatCount(count)}</dd></div>`)}
      </dl>
      ${errors.length > 0 ? this.#failures(failed, errors) : null}`;
  }

  #failures(failed, errors) {
    const isPart = BigInt(failed) > BigInt(errors.length);
    return html`
      <h3>Failed rows${isPart ? `: the first ${formatCount(errors.length)}` : ""}</h3>
      <div class="scroll" tabindex="0" role="region" aria-label="Failed rows">
        <table>
          <thead><tr><th scope="col">Line</th><th scope="col">What is wrong</th></tr></thead>
          <tbody>
            ${errors.map(({ line, message }) => html`<tr><td class="number">${line}</td><td>${message}</td></tr>`)}
          </tbody>
        </table>
      </div>
      <button @click=${() => this.#download(errors)}>Download the failed rows</button>`;
  }

  async #download(errors) {
    try {
      const rowTexts = await rowsAt(this.file, errors.map(({ line }) => Number(line)));
      const rows = errors.map(({ line, error, message }) => [line, error, message, rowTexts.get(Number(line)) ?? ""]);
      const csv = csvOf([["line", "error", "message", "row"], ...rows]);
      saveFile(new Blob([csv], { type: "text/csv" }), "failed-rows.csv");
    } catch (error) {
      // The file may have been changed or removed since.
      this.error = error.message;
      this.app.changed();
    }
  }

  /** Imports a file. */
  async start(file) {
    Object.assign(this, { file, progress: 0, report: null, error: "" });
    this.#stop = new AbortController();
    this.app.changed();
    addEventListener("beforeunload", askBeforeLeaving);
    try {
      this.report = await this.#send(file);
      const { created, failed } = this.report;
      const failures = failed === "0" ? "" : `; ${formatCount(failed)} rows failed`;
      this.app.announce(`Imported ${file.name}: ${formatPlants(created)} added${failures}.`);
    } catch (failure) {
      if (this.#stop.signal.aborted) this.error = `Stopped. ${STORED_ROWS}`;
      else if (failure.isOffline) this.error = `The connection broke off. ${STORED_ROWS} Import the file again.`;
      else this.error = `${failure.message}.`;
    }
    removeEventListener("beforeunload", askBeforeLeaving);
    this.progress = null;
    this.app.session?.list.refresh();
    this.app.changed();
  }

  async #send(file) {
    const onProgress = (progress) => {
      this.progress = progress;
      this.app.changed();
    };
    const path = `plants/import?on_conflict=${this.onConflict}`;
    const options = { onProgress, signal: this.#stop.signal };
    return this.app.session.server.upload(path, file, await mediaTypeOf(file), options);
  }
}

function askBeforeLeaving(event) {
  event.preventDefault();
}
