// The dialog that imports plants from a file.

import { html } from "./lit-html/lit-html.js";
import { Failure, parse } from "./server.js";
import { counted, csv, linesOf, mediaType, save } from "./files.js";

const ON_CONFLICT = [
  ["error", "report the row"],
  ["skip", "keep the stored plant"],
  ["replace", "replace the stored plant"],
];

const BROKEN_OFF =
  "The connection broke off. Rows that had arrived are stored. Import the file again, and keep the stored plants.";

export class ImportDialog {
  onConflict = "error";
  file = null;
  /** How much of the file the server has taken, from 0 to 1; null while no import runs. */
  progress = null;
  report = null;
  error = "";
  #request = null;

  constructor(app) {
    this.app = app;
  }

  view() {
    return html`
      <dialog class="import" aria-labelledby="dialog-title" @cancel=${this.#onCancel}
        @close=${() => this.app.closeDialog(this)}>
        <h2 id="dialog-title">Import plants</h2>
        ${this.#content()}
        <p class="error" role="alert">${this.error}</p>
        <div class="actions">
          ${this.progress === null
            ? html`<button class=${this.report ? "primary" : ""} @click=${() => this.app.closeDialog(this)}>Close</button>`
            : html`<button @click=${() => this.#request.abort()}>Stop</button>`}
        </div>
      </dialog>`;
  }

  #content() {
    if (this.progress !== null) return this.#sending();
    return this.report ? this.#done() : this.#choose();
  }

  #choose() {
    const onFile = ({ target }) => target.files.length > 0 && this.start(target.files[0]);
    return html`
      <p>A CSV file whose first line names the columns <code>id</code>, <code>name</code> and <code>tag</code>, or one
        plant in JSON on each line, as an export has them.</p>
      <div class="field">
        <label for="on-conflict">If an id is taken</label>
        <select id="on-conflict" @change=${({ target }) => (this.onConflict = target.value)}>
          ${ON_CONFLICT.map(([value, label]) => html`<option value=${value}>${label}</option>`)}
        </select>
      </div>
      <div class="drop">
        <label for="import-file">Choose a file, or drop one anywhere on the page</label>
        <input id="import-file" type="file" accept=".csv,.ndjson,.jsonl,.json,text/csv,application/json" autofocus
          @change=${onFile}>
      </div>`;
  }

  #sending() {
    const isSent = this.progress === 1;
    return html`
      <p>${this.file.name}</p>
      <progress aria-label="Imported" max="1" .value=${this.progress}></progress>
      <p>${isSent ? "Storing the last rows …" : `${Math.floor(this.progress * 100)} %`}</p>`;
  }

  #done() {
    const { created, replaced, skipped, failed, errors } = this.report;
    const outcomes = [["added", created], ["replaced", replaced], ["kept as they were", skipped], ["failed", failed]];
    const isShown = ([label, count]) => label === "added" || count !== "0";
    return html`
      <dl class="outcomes">
        ${outcomes.filter(isShown).map(([label, count]) => html`<div><dt>${label}</dt><dd>${counted(count)}</dd></div>`)}
      </dl>
      ${errors.length > 0 ? this.#failures(failed, errors) : null}`;
  }

  #failures(failed, errors) {
    const isCut = BigInt(failed) > BigInt(errors.length);
    return html`
      <h3>Failed rows${isCut ? `: the first ${counted(errors.length)}` : ""}</h3>
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
      const texts = await linesOf(this.file, errors.map(({ line }) => Number(line)));
      const rows = errors.map(({ line, error, message }) => [line, error, message, texts.get(Number(line)) ?? ""]);
      save(new Blob([csv([["line", "error", "message", "row"], ...rows])], { type: "text/csv" }), "failed-rows.csv");
    } catch (error) {
      // The file may have been changed or removed since.
      this.error = error.message;
      this.app.changed();
    }
  }

  /** The Escape key ends no running import. */
  #onCancel = (event) => {
    if (this.progress !== null) event.preventDefault();
  };

  /** Imports a file. */
  async start(file) {
    Object.assign(this, { file, progress: 0, report: null, error: "" });
    this.app.changed();
    addEventListener("beforeunload", askBeforeLeaving);
    try {
      this.report = await this.#send(file, await mediaType(file));
      const { created, failed } = this.report;
      const failures = failed === "0" ? "" : `; ${counted(failed)} rows failed`;
      this.app.announce(`Imported ${file.name}: ${counted(created)} plants added${failures}.`);
    } catch (failure) {
      this.error = failure.message;
    }
    removeEventListener("beforeunload", askBeforeLeaving);
    this.progress = null;
    this.app.session.list.refresh();
    this.app.changed();
  }

  /** Sends the file. Unlike fetch, an XMLHttpRequest tells how far it is. */
  #send(file, type) {
    const { server } = this.app.session;
    const request = (this.#request = new XMLHttpRequest());
    request.open("POST", `plants/import?on_conflict=${this.onConflict}`);
    request.setRequestHeader("Authorization", server.authorization.Authorization);
    request.setRequestHeader("Content-Type", type);
    request.upload.onprogress = ({ loaded, total }) => {
      this.progress = total > 0 ? loaded / total : 0;
      this.app.changed();
    };
    return new Promise((resolve, reject) => {
      request.onload = () => {
        const { status, responseText } = request;
        if (status === 200) resolve(parse(responseText));
        else reject(server.failed(Failure.of(status, responseText)));
      };
      request.onerror = () => reject(new Failure(BROKEN_OFF));
      request.onabort = () => reject(new Failure("Stopped. Rows that had arrived are stored."));
      request.send(file);
    });
  }
}

function askBeforeLeaving(event) {
  event.preventDefault();
}
