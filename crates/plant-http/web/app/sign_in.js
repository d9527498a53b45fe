// The sign-in dialog.

import { html } from "./lit-html/lit-html.js";
import { focusAfterRendering, modal } from "./dialog.js";
import { fieldView } from "./field.js";

// Without a token, there is nothing behind the dialog to go back to: it never closes by the Escape key.
const NEVER_CLOSES = { isBusy: true };

export function signInView(app) {
  const { isChecking, message } = app.signIn;
  const submit = async (event) => {
    event.preventDefault();
    const field = event.target.elements.token;
    const token = field.value.trim();
    field.value = "";
    await app.submitToken(token);
    if (app.signIn?.message) focusAfterRendering(app, "#token");
  };
  const hint = "It stays in this tab until you close the tab or sign out.";
  return modal(app, NEVER_CLOSES, { title: "Plant Store", className: "sign-in" }, html`
    <form @submit=${submit}>
      <p>Sign in with your token.</p>
      ${fieldView({ id: "token", label: "Token", type: "password", error: message, hint, isFirst: true, isRequired: true })}
      <button class="primary wide" aria-disabled=${isChecking}>${isChecking ? "Signing in …" : "Sign in"}</button>
    </form>
    <details>
      <summary>Where do I get a token?</summary>
      <p>Ask the person who runs this server.</p>
      <p>
        If that is you: the first start wrote a token to <code>plantd-data/first-run-token</code>, and
        <code>plantd token create</code> makes more.
      </p>
    </details>`);
}
