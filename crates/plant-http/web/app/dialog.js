// What all dialogs share.

import { html } from "./lit-html/lit-html.js";

/**
 * A modal dialog. `dialog` is its object, which the app holds while it is open. While it `isBusy`, the Escape key does not
 * close it, but calls `interrupt` if there is one. What is outside a modal dialog is not read out, so the trouble of the app
 * is repeated within.
 */
export function modal(app, dialog, { title, className = "" }, content) {
  const onCancel = (event) => {
    if (!dialog.isBusy) return;
    event.preventDefault();
    dialog.interrupt?.();
  };
  // Chromium closes a dialog at a second Escape in any case, and `changed` then opens the dialog again.
  const onClose = () => (dialog.isBusy ? app.changed() : app.closeDialog(dialog));
  return html`
    <dialog class=${className} aria-label=${title} @cancel=${onCancel} @close=${onClose}>
      <h2>${title}</h2>
      ${content} ${troubleView(app.trouble)}
    </dialog>`;
}

export function troubleView(trouble) {
  return trouble && html`<p class="trouble" role="alert">${troubleText(trouble)} Trying again …</p>`;
}

function troubleText(failure) {
  if (failure.isOffline) return "No connection to the server.";
  return failure.isTemporary ? "The server is busy." : `${failure.message}.`;
}

/** A message that is read out when it appears. */
export function errorView(message) {
  return html`<p class="error" role="alert">${message}</p>`;
}
