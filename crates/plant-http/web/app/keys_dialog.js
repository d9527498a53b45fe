// The dialog that lists the keyboard shortcuts.

import { html } from "./lit-html/lit-html.js";
import { modal } from "./dialog.js";
import { SHORTCUTS, setSingleKeys, usesSingleKeys } from "./keys.js";

export class KeysDialog {
  constructor(app) {
    this.app = app;
  }

  view() {
    const isOffered = ({ mayWrite }) => !mayWrite || this.app.session.mayWrite;
    const choose = ({ target }) => {
      setSingleKeys(target.checked);
      this.app.draw();
    };
    return modal(this.app, this, { title: "Keyboard shortcuts" }, html`
      <dl>
        ${SHORTCUTS.filter(isOffered).map(({ keys, does }) => html`
          <dt>${keys.map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${does}</dd>`)}
      </dl>
      <label class="option">
        <input type="checkbox" .checked=${usesSingleKeys()} @change=${choose}> Use single characters as shortcuts
      </label>
      <div class="actions"><button class="primary" autofocus @click=${() => this.app.closeDialog(this)}>Close</button></div>`);
  }
}
