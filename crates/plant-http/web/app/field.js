// A text field of a form, with its label, a hint, and what is wrong with its text.

import { html } from "./lit-html/lit-html.js";

/** `error` is a sentence for the person, empty if nothing is wrong. */
export function fieldView({ id, label, error, hint = "", type = "text", value = "", onInput, ...is }) {
  const { isFirst = false, isFixed = false, isRequired = false } = is;
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      <input id=${id} type=${type} autocomplete="off" spellcheck="false" aria-invalid=${error ? "true" : "false"}
        aria-describedby="${id}-error ${id}-hint" ?autofocus=${isFirst} ?readonly=${isFixed} ?required=${isRequired}
        .value=${value} @input=${onInput}>
      <p class="error" id="${id}-error" role="alert">${error}</p>
      <p class="hint" id="${id}-hint">${hint}</p>
    </div>`;
}
