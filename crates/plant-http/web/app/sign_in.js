// The sign-in dialog.

import { html } from "./lit-html/lit-html.js";
import { errorView, modal } from "./dialog.js";

// Without a token, there is nothing behind the dialog to go back to: it never closes by the Escape key.
const NEVER_CLOSES = { isBusy: true };

export function signInView(app) {
  const { isChecking, message } = app.signIn;
  const submit = (event) => {
    event.preventDefault();
    const field = event.target.elements.token;
    app.submitToken(field.value.trim());
    field.value = "";
  };
  return modal(app, NEVER_CLOSES, { title: "Plant Store", className: "sign-in" }, html`
    <form @submit=${submit}>
      <p>Sign in with a token of this store.</p>
      <div class="field">
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="off" required autofocus>
      </div>
      ${errorView(message)}
      <button class="primary wide" aria-disabled=${isChecking}>Sign in</button>
      <p class="hint">
        The first start of a server writes a token to <code>plantd-data/first-run-token</code>, and
        <code>plantd token create</code> makes more. It stays in this tab only.
      </p>
    </form>`);
}
