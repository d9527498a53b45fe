// The dialog that imports plants from a file: choosing it, looking at what is in it, sending it, and the report.

import { html } from "./lit-html/lit-html.js";
import { errorView, modal } from "./dialog.js";
import { formatBytes, formatCount, formatPlants, sentence } from "./format.js";
import { previewOf } from "./import_preview.js";
import { failuresView, outcomesView, saveFailedRows } from "./import_report.js";

const ON_CONFLICT = [
  ["error", "leave the row out, and report it", "Stored plants stay as they are. The report lists each row whose id is taken."],
  ["skip", "keep the stored plant", "Stored plants stay as they are. Rows whose id is taken are left out, and only counted."],
  ["replace", "replace the stored plant", "Rows whose id is taken overwrite the name and the tag of the stored plant."],
];

const STORED_ROWS = "Rows that had arrived are stored.";

export class ImportDialog {
  onConflict = "error";
  file = null;
  /** What is in the file; null before the first rows have been read. */
  preview = null;
  /** How much of the file has been sent, from 0 to 1; null while no import runs. */
  progress = null;
  report = null;
  error = "";
  /** Ends the reading of the file for its preview, or the import. */
  stop = new AbortController();
  #isDraggedOver = false;

  constructor(app) {
    this.app = app;
  }

  /** Only "Stop" ends a running import, and not the Escape key. */
  get isBusy() {
    return this.progress !== null;
  }

  view() {
    return modal(this.app, this, { title: "Import plants" }, html`
      <div aria-live="polite">${this.report ? outcomesView(this.report) : null}</div>
      ${this.#content()}
      ${errorView(this.error)}
      <div class="actions">${this.#actions()}</div>`);
  }

  #content() {
    if (this.report) return this.report.errors.length > 0 ? failuresView(this.report, this.#download) : null;
    if (this.isBusy) return this.#running();
    return this.file ? this.#preview() : this.#choice();
  }

  #actions() {
    if (this.isBusy) return html`<button @click=${() => this.stop.abort()}>Stop</button>`;
    const close = () => this.app.closeDialog(this);
    if (this.report) return html`<button class="primary" @click=${close}>Close</button>`;
    if (!this.file) return html`<button @click=${close}>Cancel</button>`;
    return html`
      <button @click=${close}>Cancel</button>
      ${this.preview && !this.preview.problem ? this.#importButton() : null}`;
  }

  #importButton() {
    const isCounted = this.preview?.read === 1;
    return html`
      <button class="primary" autofocus aria-disabled=${!isCounted} @click=${() => isCounted && this.#import()}>
        ${isCounted ? `Import ${formatPlants(this.preview.count)}` : "Import"}
      </button>`;
  }

  #choice() {
    const onFile = ({ target }) => target.files.length > 0 && this.choose(target.files[0]);
    const onDrag = (isOver) => () => {
      if (this.#isDraggedOver === isOver) return;
      this.#isDraggedOver = isOver;
      this.app.draw();
    };
    return html`
      <div class="drop ${this.#isDraggedOver ? "over" : ""}" @dragover=${onDrag(true)} @dragleave=${onDrag(false)}
        @drop=${onDrag(false)}>
        <svg viewBox="0 0 24 24" width="40" height="40" aria-hidden="true"><path d="M12 16V4m-5 5 5-5 5 5M4 16v4h16v-4"/></svg>
        <input id="import-file" class="visually-hidden" type="file" autofocus
          accept=".csv,.ndjson,.jsonl,.json,text/csv,application/json" @change=${onFile}>
        <label for="import-file"><span class="link">Choose a file</span>, or drop one anywhere on the page</label>
        <p class="hint">Nothing is sent before you have seen what is in it.</p>
      </div>
      <p class="hint">
        A CSV file whose first line names the columns <code>id</code>, <code>name</code> and <code>tag</code>, or JSON: one
        plant on each line, as an export has them, or an array.
      </p>`;
  }

  #preview() {
    const { file, preview } = this;
    return html`
      <div class="file">
        <div>
          <p class="file-name">${file.name}</p>
          <p class="hint">${formatBytes(file.size)}${preview && !preview.problem ? `, ${preview.format}` : ""}</p>
        </div>
        <button @click=${this.#chooseAnother}>Choose another file</button>
      </div>
      ${preview ? this.#rows(preview) : null}`;
  }

  #rows({ problem, read, count, first }) {
    if (problem) return errorView(problem);
    const rows = `${formatCount(count)} ${count === 1 ? "row" : "rows"}`;
    return html`
      ${read < 1
        ? html`
          <progress aria-label="Read" max="1" .value=${read}></progress>
          <p>Counting … ${rows} so far</p>`
        : html`<p>${rows}${first.length < count ? `, of which the first ${first.length} are:` : ""}</p>`}
      <div class="scroll" tabindex="0" role="region" aria-label="First rows">
        <table class="preview">
          <thead><tr><th scope="col">Id</th><th scope="col">Name</th><th scope="col">Tag</th></tr></thead>
          <tbody>
            ${first.map(({ id, name, tag }) => html`
              <tr><td class="number"><span>${id}</span></td><td><span>${name}</span></td><td><span>${tag}</span></td></tr>`)}
          </tbody>
        </table>
      </div>
      ${this.#conflictChoice()}`;
  }

  #conflictChoice() {
    const onChange = ({ target }) => {
      this.onConflict = target.value;
      this.app.draw();
    };
    const [, , consequence] = ON_CONFLICT.find(([value]) => value === this.onConflict);
    return html`
      <div class="field">
        <label for="on-conflict">If an id is taken</label>
        <select id="on-conflict" aria-describedby="on-conflict-hint" @change=${onChange}>
          ${ON_CONFLICT.map(([value, label]) => html`
            <option value=${value} ?selected=${value === this.onConflict}>${label}</option>`)}
        </select>
        <p class="hint" id="on-conflict-hint" aria-live="polite">${consequence}</p>
      </div>`;
  }

  #running() {
    const isSent = this.progress === 1;
    return html`
      <p class="file-name">${this.file.name}</p>
      <progress aria-label="Sent" max="1" .value=${this.progress}></progress>
      <p>${isSent ? "Storing the last rows …" : `${Math.floor(this.progress * 100)} %`}</p>`;
  }

  #download = async () => {
    try {
      await saveFailedRows(this.file, this.report.errors);
    } catch (error) {
      this.error = unreadable(error);
      this.app.draw();
    }
  };

  #chooseAnother = () => {
    this.stop.abort();
    Object.assign(this, { file: null, preview: null, error: "" });
    this.app.draw();
  };

  /** Shows what is in a file, instead of the one before. */
  async choose(file) {
    this.stop.abort();
    const { signal } = (this.stop = new AbortController());
    const show = (state) => {
      Object.assign(this, state);
      this.app.draw();
    };
    show({ file, preview: null, report: null, error: "" });
    try {
      const preview = await previewOf(file, { onProgress: (preview) => show({ preview }), signal });
      if (!signal.aborted) show({ preview });
    } catch (error) {
      if (!signal.aborted) show({ error: unreadable(error) });
    }
  }

  async #import() {
    Object.assign(this, { progress: 0, error: "" });
    this.stop = new AbortController();
    this.app.draw();
    addEventListener("beforeunload", askBeforeLeaving);
    try {
      this.report = await this.#send();
    } catch (failure) {
      const unread = await this.file.slice(0, 1).arrayBuffer().then(() => "", unreadable);
      if (this.stop.signal.aborted) this.error = `Stopped. ${STORED_ROWS}`;
      else if (unread) this.error = unread;
      else if (failure.isOffline) this.error = `The connection broke off. ${STORED_ROWS} Import the file again.`;
      else this.error = sentence(failure.message);
    }
    removeEventListener("beforeunload", askBeforeLeaving);
    this.progress = null;
    this.app.session?.list.refresh();
    this.app.draw();
  }

  #send() {
    const onProgress = (progress) => {
      this.progress = progress;
      this.app.draw();
    };
    const path = `plants/import?on_conflict=${this.onConflict}`;
    const options = { onProgress, signal: this.stop.signal };
    return this.app.session.server.upload(path, this.file, this.preview.mediaType, options);
  }
}

/** The file may have been changed or removed since it was chosen. */
const unreadable = (error) => `The file cannot be read: ${error.message}`;

function askBeforeLeaving(event) {
  event.preventDefault();
}
