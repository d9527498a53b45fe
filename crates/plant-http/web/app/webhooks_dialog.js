// The dialog that shows the webhooks of the server, and how each is doing.

import { html } from "./lit-html/lit-html.js";
import { errorView, modal, timeView } from "./dialog.js";
import { formatDuration, sentence } from "./format.js";

const STATES = {
  sending: "Sending",
  failing: "Failing: the last attempt failed, and is repeated",
  paused: "Paused",
  gone: "Paused, because the receiver answered 410 (Gone)",
};

export class WebhooksDialog {
  stop = new AbortController();
  /** Null until there is an answer. */
  #webhooks = null;
  #error = "";

  constructor(app) {
    this.app = app;
    this.#read();
  }

  #read = async () => {
    try {
      const { value } = await this.app.session.server.read("webhooks", this.stop.signal);
      this.#webhooks = value.webhooks;
      this.#error = "";
    } catch (failure) {
      this.#error = sentence(failure.message);
    }
    this.app.draw();
  };

  view() {
    return modal(this.app, this, { title: "Webhooks", className: "entries" }, html`
      ${this.#list()} ${errorView(this.#error)}
      <p class="hint">Webhooks are managed with <code>plantd webhook</code> on the server's machine.</p>
      <div class="actions">
        <button @click=${this.#read}>Refresh</button>
        <button class="primary" autofocus @click=${() => this.app.closeDialog(this)}>Close</button>
      </div>`);
  }

  #list() {
    if (this.#webhooks === null) return this.#error ? null : html`<p class="hint">Loading …</p>`;
    if (this.#webhooks.length === 0) {
      return html`<p>There are no webhooks. A webhook sends each change to the URL of another program.</p>`;
    }
    return html`
      <div class="scroll" tabindex="0" role="region" aria-label="Webhooks"><ul>${this.#webhooks.map(item)}</ul></div>`;
  }
}

function item({ name, origin, kinds, plants, state, last_success, lag_seconds, last_error }) {
  const isTrouble = ["failing", "gone"].includes(state);
  const details = [
    ["State", html`<span class=${isTrouble ? "error" : ""}>${STATES[state] ?? state}</span>`],
    ["To", origin],
    ["Sends", `${kinds.join(", ")}${plants ? ", with plants" : ""}`],
    ["Last success", last_success ? timeView(last_success) : "none"],
    ["Lag", lag_seconds && formatDuration(lag_seconds)],
    ["Last error", last_error && html`${sentence(last_error.message)} ${timeView(last_error.at)}`],
  ];
  return html`
    <li>
      <div>
        <h3>${name}</h3>
        <dl>${details.filter(([, text]) => text).map(([term, text]) => html`<dt>${term}</dt><dd>${text}</dd>`)}</dl>
      </div>
    </li>`;
}
