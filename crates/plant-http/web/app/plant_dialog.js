// The dialog that shows one plant, adds one, or edits one.

import { html } from "./lit-html/lit-html.js";
import { conflictView } from "./conflict.js";
import { discardView, errorView, focusAfterRendering, modal } from "./dialog.js";
import { fieldView } from "./field.js";
import { formatPlant, sentence } from "./format.js";
import { hasMistakes, mistakesIn, mistakesOf } from "./mistakes.js";
import { BLANK, MEMBERS, isSame, parseId, replacePlant } from "./plant.js";

const STOPPED = "Stopped. The server may have stored the plant already.";

export class PlantDialog {
  /** What is wrong with each field. */
  mistakes = BLANK;
  /** What else went wrong. */
  error = "";
  isBusy = false;
  /** Whether the person is asked to discard what was typed. */
  isAsking = false;
  #stop = new AbortController();

  /**
   * `plant` is null for a new one; else it has its `etag`, and `isEditing` says whether it is only shown. `theirs` is the
   * plant as someone else has stored it in the meantime.
   */
  constructor(app, plant, { isEditing, theirs = null }) {
    Object.assign(this, { app, plant, isEditing, theirs });
    this.fields = { ...BLANK, ...plant };
  }

  get #isNew() {
    return this.plant === null;
  }

  /** Whether something was typed that is not stored. */
  get hasChanges() {
    const before = { ...BLANK, ...this.plant };
    return MEMBERS.some((field) => this.fields[field] !== before[field]);
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
      this.app.changes.delete(this.plant);
    };
    return modal(this.app, this, { title: name }, html`
      <dl>
        <dt>Id</dt><dd class="id">${id}</dd>
        <dt>Tag</dt><dd>${tag ? html`<span class="tag">${tag}</span>` : "none"}</dd>
      </dl>
      <div class="actions">
        ${mayWrite
          ? html`<button class="danger apart" @click=${remove}>Delete</button><button @click=${this.#edit}>Edit</button>`
          : null}
        <button @click=${() => this.app.openHistory(id)}>History</button>
        <button class="primary" autofocus @click=${this.#close}>Close</button>
      </div>`);
  }

  #edit = () => {
    this.isEditing = true;
    this.app.draw();
  };

  #form() {
    const idHint = this.#isNew ? "Any whole number that no other plant has." : "";
    return modal(this.app, this, { title: this.#isNew ? "Add plant" : "Edit plant" }, html`
      <form @submit=${this.#save} novalidate>
        ${this.#field("id", "Id", { hint: idHint, isFirst: this.#isNew, isFixed: !this.#isNew, isRequired: this.#isNew })}
        ${this.#field("name", "Name", { isFirst: !this.#isNew, isRequired: true })}
        ${this.#field("tag", "Tag", { hint: "Optional. Plants can be listed by tag, such as a family." })}
        ${this.theirs && conflictView(this.theirs, this.fields)}
        ${errorView(this.error)}
        ${this.isAsking ? discardView(this.app, this) : this.#actions()}
      </form>`);
  }

  #field(name, label, options) {
    const onInput = ({ target }) => {
      this.fields[name] = target.value;
      this.isAsking = false;
      this.app.draw();
    };
    const [error, value] = [this.mistakes[name], this.fields[name]];
    return fieldView({ id: `plant-${name}`, label, error, value, onInput, ...options });
  }

  #actions() {
    return html`
      <div class="actions">
        <button type="button" @click=${this.isBusy ? this.interrupt : this.#close}>Cancel</button>
        ${this.#saveButtons()}
      </div>`;
  }

  #saveButtons() {
    const { theirs, isBusy } = this;
    if (theirs === null) return html`<button class="primary" aria-disabled=${isBusy}>Save</button>`;
    if (theirs.isGone) return html`<button class="primary" aria-disabled=${isBusy}>Add it again</button>`;
    // Not a submit button: the Enter key in a field would press it, and nobody has looked at both versions by then.
    return html`
      <button type="button" aria-disabled=${isBusy} @click=${this.#takeTheirs}>Take theirs</button>
      <button type="button" class="danger" aria-disabled=${isBusy} @click=${this.#save}>Overwrite with mine</button>`;
  }

  #takeTheirs = () => {
    if (this.isBusy) return;
    Object.assign(this.fields, BLANK, this.theirs);
    this.plant = this.theirs;
    Object.assign(this, { theirs: null, mistakes: BLANK, error: "" });
    this.app.draw();
  };

  #save = async (event) => {
    event.preventDefault();
    if (this.isBusy) return;
    this.error = "";
    this.mistakes = mistakesIn(this.fields);
    if (hasMistakes(this.mistakes)) return this.#focusMistake();
    this.isBusy = true;
    this.app.draw();
    this.#stop = new AbortController();
    const id = parseId(this.fields.id);
    let isSaved = false;
    try {
      isSaved = await this.#store(id);
    } catch (failure) {
      this.#failed(failure);
    }
    this.isBusy = false;
    if (isSaved) this.#saved(id);
    if (hasMistakes(this.mistakes)) this.#focusMistake();
    this.app.draw();
  };

  #failed(failure) {
    const mistakes = mistakesOf(failure);
    if (this.#stop.signal.aborted) this.error = STOPPED;
    else if (mistakes) this.mistakes = mistakes;
    else this.error = sentence(failure.message);
  }

  #focusMistake() {
    focusAfterRendering(this.app, '[aria-invalid="true"]');
  }

  /** Gives up a save that takes too long. What was typed stays. */
  interrupt = () => this.#stop.abort();

  /** Returns whether the plant is stored as it was typed. If someone else was faster, `theirs` says so. */
  async #store(id) {
    const wanted = { ...this.fields, id };
    const current = this.#isNew ? { isGone: true } : (this.theirs ?? this.plant);
    const stored = await replacePlant(this.app.session.server, current, wanted, this.#stop.signal);
    if (isSame(stored, wanted)) return true;
    if (this.#isNew) this.mistakes = { ...BLANK, id: `A plant with id ${id} exists already; choose another id.` };
    else this.theirs = stored;
    return false;
  }

  #saved(id) {
    this.#close();
    const plant = formatPlant({ id, name: this.fields.name });
    const show = { label: "Show", run: () => this.app.jumpTo(id) };
    if (this.#isNew) this.app.announce(`Added ${plant}.`, [show]);
    else this.app.announce(`Saved ${plant}.`);
    this.app.session.list.refresh();
  }
}
