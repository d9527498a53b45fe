// The dialog that shows one plant, adds one, or edits one.

import { html } from "./lit-html/lit-html.js";
import { addPlant, canonicalId, changePlant, described, idempotencyKey } from "./plants.js";

const ID_HINT = "Any whole number that no other plant has, from −2⁶³ to 2⁶³ − 1.";
const NOT_AN_ID = "The id must be a whole number, such as 1 or -7.";

export class PlantDialog {
  /** What went wrong, for the person. */
  error = "";
  isSaving = false;
  /** The plant as someone else has stored it in the meantime. */
  theirs = null;
  #key = idempotencyKey();

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
    if (!this.isEditing) return this.#details();
    const title = this.#isNew ? "Add plant" : "Edit plant";
    return html`
      <dialog aria-labelledby="dialog-title" @close=${() => this.app.closeDialog(this)}>
        <form @submit=${this.#save} novalidate>
          <h2 id="dialog-title">${title}</h2>
          ${this.#field("id", "Id", this.#isNew ? ID_HINT : "", !this.#isNew)}
          ${this.#field("name", "Name")}
          ${this.#field("tag", "Tag", "Optional. Plants with the same tag can be listed together, such as a family.")}
          ${this.theirs && this.#conflict()}
          <p class="error" role="alert">${this.error}</p>
          <div class="actions">
            <button type="button" @click=${() => this.app.closeDialog(this)}>Cancel</button>
            <button class="primary" aria-disabled=${this.isSaving}>Save</button>
          </div>
        </form>
      </dialog>`;
  }

  #field(name, label, hint = "", isFixed = false) {
    const onInput = (event) => {
      this.fields[name] = event.target.value;
      this.app.changed();
    };
    const isFirst = name === (this.#isNew ? "id" : "name");
    return html`
      <div class="field">
        <label for="plant-${name}">${label}</label>
        <input id="plant-${name}" autocomplete="off" spellcheck="false" aria-describedby="plant-${name}-hint"
          inputmode=${name === "id" ? "numeric" : "text"} ?autofocus=${isFirst} ?readonly=${isFixed}
          .value=${this.fields[name]} @input=${onInput}>
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
    if (this.isSaving) return;
    this.isSaving = true;
    this.error = "";
    this.app.changed();
    try {
      await this.#store();
    } catch (failure) {
      this.error = failure.message;
    }
    this.isSaving = false;
    this.app.changed();
  };

  async #store() {
    const { server } = this.app.session;
    const { name, tag } = this.fields;
    const id = canonicalId(this.fields.id);
    if (id === null) {
      this.error = NOT_AN_ID;
      return;
    }
    if (this.#isNew || this.theirs?.isGone) {
      await addPlant(server, { id, name, tag }, this.#key);
    } else {
      const { etag } = this.theirs ?? this.plant;
      this.theirs = await changePlant(server, { id, name, tag, etag });
      if (this.theirs) return;
    }
    this.app.closeDialog(this);
    const show = { label: "Show", run: () => this.app.jumpTo(id) };
    const what = described({ id, name });
    this.app.announce(this.#isNew ? `Added ${what}.` : `Saved ${what}.`, this.#isNew ? show : null);
    this.app.session.list.refresh();
  }

  #details() {
    const { id, name, tag } = this.plant;
    const remove = () => {
      this.app.closeDialog(this);
      this.app.remove(this.plant);
    };
    const edit = () => {
      this.isEditing = true;
      this.app.changed();
    };
    return html`
      <dialog aria-labelledby="dialog-title" @close=${() => this.app.closeDialog(this)}>
        <h2 id="dialog-title" class="name">${name}</h2>
        <dl>
          <dt>Id</dt><dd class="id">${id}</dd>
          <dt>Tag</dt><dd>${tag ? html`<span class="tag">${tag}</span>` : "none"}</dd>
        </dl>
        <div class="actions">
          ${this.app.session.mayWrite
            ? html`<button @click=${remove}>Delete</button><button @click=${edit}>Edit</button>`
            : null}
          <button class="primary" autofocus @click=${() => this.app.closeDialog(this)}>Close</button>
        </div>
      </dialog>`;
  }
}
