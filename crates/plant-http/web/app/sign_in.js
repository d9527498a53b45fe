// The sign-in dialog.

import { html } from "./lit-html/lit-html.js";
import { errorView, troubleView } from "./dialog.js";

export function signInView(app) {
  const { isChecking, message } = app.signIn;
  const submit = (event) => {
    event.preventDefault();
    const field = event.target.elements.token;
    app.submitToken(field.value.trim());
    field.value = "";
  };
  // Without a token, there is nothing behind the dialog to go back to. Chromium closes a dialog at a second Escape in any
  // case, and `changed` then opens the dialog again.
  return html`
    <dialog class="sign-in" aria-labelledby="sign-in-title" @cancel=${(event) => event.preventDefault()} @close=${app.changed}>
      <form @submit=${submit}>
        <img src="app/icon.svg" alt="" width="48" height="48">
        <h2 id="sign-in-title">Plant Store</h2>
        <p>Sign in with a token of this store.</p>
        <div class="field">
          <label for="token">Token</label>
          <input id="token" name="token" type="password" autocomplete="off" required autofocus>
        </div>
        ${errorView(message)} ${troubleView(app.trouble)}
        <button class="primary wide" aria-disabled=${isChecking}>Sign in</button>
        <p class="hint">
          The first start of a server writes a token to <code>plantd-data/first-run-token</code>, and
          <code>plantd token create</code> makes more. It stays in this tab only.
        </p>
      </form>
    </dialog>`;
}
