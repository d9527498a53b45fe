// The dialog that shows one plant, adds one, or edits one.

import { html } from "./lit-html/lit-html.js";
import { errorView, modal } from "./dialog.js";
import { formatPlant } from "./format.js";
import { NOT_AN_ID, addPlant, changePlant, idempotencyKey, parseId, readPlant } from "./plant.js";
import { ID_TAKEN } from "./server.js";

const STOPPED = "Stopped. The server may have stored the plant already.";

export class PlantDialog {
  /** What went wrong, for the person. */
  error = "";
  isBusy = false;
  /** The plant as someone else has stored it in the meantime, or `{ isGone: true }`. */
  theirs = null;
  #key = idempotencyKey();
  #stop = new AbortController();

  /** `plant` is null for a new one; else it has its `etag`, and `isEditing` says whether it is only shown. */
  constructor(app, plant, isEditing) {
    this.app = app;
    this.plant = plant;
    this.isEditing = isEditing;
    this.fields = { id: "", name: "", tag: "", ...plant };
  }

  get #isNew() {
    return this.plant === null;
  }

  view() {
    return this.isEditing ? this.#form() : this.#details();
  }

  #close = () => this.app.closeDialog(this);

  #details() {
    const { id, name, tag } = this.plant;
    const { mayWrite } = this.app.session;
    const remove = () => {
      this.#close();
      this.app.remove(this.plant);
    };
    return modal(this.app, this, { title: name, className: "details" }, html`
      <dl>
        <dt>Id</dt><dd class="id">${id}</dd>
        <dt>Tag</dt><dd>${tag ? html`<span class="tag">${tag}</span>` : "none"}</dd>
      </dl>
      <div class="actions">
        ${mayWrite ? html`<button @click=${remove}>Delete</button><button @click=${this.#edit}>Edit</button>` : null}
        <button class="primary" autofocus @click=${this.#close}>Close</button>
      </div>`);
  }

  #edit = () => {
    this.isEditing = true;
    this.app.changed();
  };

  #form() {
    const idHint = this.#isNew ? "Any whole number that no other plant has." : "";
    return modal(this.app, this, { title: this.#isNew ? "Add plant" : "Edit plant" }, html`
      <form @submit=${this.#save} novalidate>
        ${this.#field("id", "Id", { hint: idHint, isFixed: !this.#isNew })}
        ${this.#field("name", "Name")}
        ${this.#field("tag", "Tag", { hint: "Optional. Plants can be listed by tag, such as a family." })}
        ${this.theirs && this.#conflict()}
        ${errorView(this.error)}
        <div class="actions">
          <button type="button" @click=${this.isBusy ? this.interrupt : this.#close}>Cancel</button>
          <button class="primary" aria-disabled=${this.isBusy}>Save</button>
        </div>
      </form>`);
  }

  #field(name, label, { hint = "", isFixed = false } = {}) {
    const onInput = ({ target }) => {
      this.fields[name] = target.value;
      this.app.changed();
    };
    const isFirst = name === (this.#isNew ? "id" : "name");
    return html`
      <div class="field">
        <label for="plant-${name}">${label}</label>
        <input id="plant-${name}" autocomplete="off" spellcheck="false" aria-describedby="plant-${name}-hint"
          ?autofocus=${isFirst} ?readonly=${isFixed} .value=${this.fields[name]} @input=${onInput}>
        <p class="hint" id="plant-${name}-hint">${hint}</p>
      </div>`;
  }

  #conflict() {
    const { theirs } = this;
    if (theirs.isGone) {
      return html`<p class="conflict" role="alert">Someone else has deleted this plant. Save adds it again.</p>`;
    }
    const take = () => {
      Object.assign(this.fields, { tag: "" }, theirs);
      this.plant = theirs;
      this.theirs = null;
      this.app.changed();
    };
    const version = (title, { name, tag }) => html`
      <div>
        <h3>${title}</h3>
        <p class="name">${name}</p>
        <p>${tag ? html`<span class="tag">${tag}</span>` : "no tag"}</p>
      </div>`;
    return html`
      <section class="conflict" role="alert">
        <p>Someone else has changed this plant since you opened it. Save keeps your version.</p>
        <div class="versions">${version("Stored now", theirs)} ${version("Yours", this.fields)}</div>
        <button type="button" @click=${take}>Take theirs</button>
      </section>`;
  }

  #save = async (event) => {
    event.preventDefault();
    if (this.isBusy) return;
    const id = parseId(this.fields.id);
    this.error = id === null ? NOT_AN_ID : "";
    this.isBusy = id !== null;
    this.app.changed();
    if (!this.isBusy) return;
    this.#stop = new AbortController();
    let isSaved = false;
    try {
      isSaved = await this.#store(id);
    } catch (failure) {
      this.error = this.#stop.signal.aborted ? STOPPED : `${failure.message}.`;
    }
    this.isBusy = false;
    if (isSaved) this.#saved(id);
    this.app.changed();
  };

  /** Gives up a save that takes too long. What was typed stays. */
  interrupt = () => this.#stop.abort();

  /** Returns whether the plant is stored as it was typed. If someone else was faster, `theirs` says so. */
  async #store(id) {
    const { server } = this.app.session;
    const { signal } = this.#stop;
    const { name, tag } = this.fields;
    if (this.#isNew || this.theirs?.isGone) {
      try {
        await addPlant(server, { id, name, tag }, this.#key, signal);
        return true;
      } catch (failure) {
        if (this.#isNew || failure.number !== ID_TAKEN) throw failure;
      }
      this.theirs = (await readPlant(server, id)) ?? { isGone: true };
    } else {
      const { etag } = this.theirs ?? this.plant;
      this.theirs = await changePlant(server, { id, name, tag, etag }, signal);
    }
    return this.theirs === null;
  }

  #saved(id) {
    this.#close();
    const plant = formatPlant({ id, name: this.fields.name });
    const action = { label: "Show", run: () => this.app.jumpTo(id) };
    if (this.#isNew) this.app.announce(`Added ${plant}.`, { action });
    else this.app.announce(`Saved ${plant}.`);
    this.app.session.list.refresh();
  }
}
