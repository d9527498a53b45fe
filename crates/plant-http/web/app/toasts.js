// What happened last, each as a message that leaves by itself.

import { html } from "./lit-html/lit-html.js";
import { repeat } from "./lit-html/directives/repeat.js";

const SHOWN_MS = 6000;
// There is something to press, such as "Undo".
const SHOWN_WITH_ACTION_MS = 15_000;

export class Toasts {
  /** The newest is the first. */
  shown = [];
  /** The text of the newest one, also after it has left. */
  latest = "";
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** The `actions` are what can be done about it, each with `label` and `run`. Returns the toast. */
  add(text, actions) {
    // The same news again takes the place of the old.
    const isSame = (other) => other.text === text && actions.length === 0 && other.actions.length === 0;
    this.shown.filter(isSame).forEach(this.close);
    const toast = { text, actions, timer: 0 };
    this.shown = [toast, ...this.shown];
    this.latest = text;
    this.#leaveSoon(toast);
    this.#onChange();
    return toast;
  }

  close = (toast) => {
    clearTimeout(toast.timer);
    this.shown = this.shown.filter((other) => other !== toast);
    this.#onChange();
  };

  /** Does what the toast offers, or what it offers first. */
  act(toast, action = toast.actions[0]) {
    this.close(toast);
    action.run();
  }

  clear() {
    this.shown.forEach(this.close);
    this.latest = "";
  }

  #leaveSoon(toast) {
    clearTimeout(toast.timer);
    toast.timer = setTimeout(() => this.close(toast), toast.actions.length > 0 ? SHOWN_WITH_ACTION_MS : SHOWN_MS);
  }

  /** The region with the role is always there, so that a screen reader notices what it says. */
  view() {
    return html`
      <section aria-label="What happened">
        <p class="visually-hidden" role="status">${this.latest}</p>
        <ul class="toasts">${repeat(this.shown, (toast) => toast, (toast) => this.#toast(toast))}</ul>
      </section>`;
  }

  #toast(toast) {
    const { text, actions } = toast;
    // It stays for as long as a person is at it.
    const stay = () => clearTimeout(toast.timer);
    const leave = ({ currentTarget }) => {
      if (!currentTarget.matches(":hover, :focus-within")) this.#leaveSoon(toast);
    };
    return html`
      <li class="toast" @pointerenter=${stay} @pointerleave=${leave} @focusin=${stay} @focusout=${leave}>
        <span>${text}</span>
        ${actions.map((action) => html`<button @click=${() => this.act(toast, action)}>${action.label}</button>`)}
        <button class="plain" aria-label="Dismiss" @click=${() => this.close(toast)}>✕</button>
      </li>`;
  }
}
