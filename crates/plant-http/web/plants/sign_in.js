// The question for a token.

import { html } from "./lit-html/lit-html.js";

export function signInView(app) {
  const { isChecking, message } = app.signIn;
  const submit = (event) => {
    event.preventDefault();
    const field = event.target.elements.token;
    const token = field.value.trim();
    field.value = "";
    if (token) app.submitToken(token);
  };
  // The page behind is of no use without a token, so Escape does not lead there.
  return html`
    <dialog class="sign-in" aria-labelledby="sign-in-title" @cancel=${(event) => event.preventDefault()} @close=${app.changed}>
      <form @submit=${submit}>
        <img src="page/icon.svg" alt="" width="48" height="48">
        <h2 id="sign-in-title">Plant Store</h2>
        <p>Sign in with a token of this store.</p>
        <div class="field">
          <label for="token">Token</label>
          <input id="token" name="token" type="password" autocomplete="off" required autofocus>
        </div>
        <p class="error" role="alert">${message}</p>
        <button class="primary wide" aria-disabled=${isChecking}>Sign in</button>
        <p class="hint">
          ${isChecking && app.trouble ? "No answer yet. Trying again …" : html`
            The first start of a server writes a token to <code>plantd-data/first-run-token</code>, and
            <code>plantd token create</code> makes more. It stays in this tab only.`}
        </p>
      </form>
    </dialog>`;
}
