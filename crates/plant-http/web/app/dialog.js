// What all dialogs share.

import { html } from "./lit-html/lit-html.js";
import { formatTime, sentence } from "./format.js";

/**
 * A modal dialog. `dialog` is its object, which the app holds while it is open. The Escape key and a click outside close it,
 * with two exceptions: while it `isBusy`, the key calls `interrupt` if there is one, and a click does nothing; while it
 * `hasChanges`, both ask first (`discardView`). When it closes, its `stop` is aborted. What is outside a modal dialog is not
 * read out, so the trouble of the app is repeated within.
 */
export function modal(app, dialog, { title, className = "" }, content) {
  const isKept = () => dialog.isBusy || dialog.hasChanges;
  const leave = () => {
    if (dialog.isBusy) dialog.interrupt?.();
    else if (dialog.hasChanges) askToDiscard(app, dialog, !dialog.isAsking);
    else app.closeDialog(dialog);
  };
  const onCancel = (event) => {
    event.preventDefault();
    leave();
  };
  // Chromium closes a dialog at a second `cancel` in any case, but not at a key that is handled here.
  const onKey = (event) => event.key === "Escape" && !event.isComposing && isKept() && onCancel(event);
  // A dialog that was closed in spite of that is opened again when the app renders.
  const onClose = () => (isKept() ? app.draw() : app.closeDialog(dialog));
  // A selection of text that began inside and ends outside is no click outside.
  const onPress = (event) => (dialog.isPressedOutside = isOutside(event));
  const onClick = (event) => dialog.isPressedOutside && isOutside(event) && !dialog.isBusy && leave();
  return html`
    <dialog class=${className} aria-label=${title} @cancel=${onCancel} @close=${onClose} @keydown=${onKey}
      @pointerdown=${onPress} @click=${onClick}>
      <h2>${title}</h2>
      ${content} ${troubleView(app.trouble)}
    </dialog>`;
}

/** Whether the pointer is on the backdrop, which belongs to the dialog. */
function isOutside({ target, currentTarget, clientX, clientY }) {
  const { left, right, top, bottom } = currentTarget.getBoundingClientRect();
  const isInside = left <= clientX && clientX <= right && top <= clientY && clientY <= bottom;
  return target === currentTarget && !isInside;
}

function askToDiscard(app, dialog, isAsking) {
  dialog.isAsking = isAsking;
  focusAfterRendering(app, isAsking ? ".discard button" : "[autofocus]");
}

/** Stands in place of the dialog's buttons while it asks whether to close. */
export function discardView(app, dialog) {
  return html`
    <div class="actions discard" role="alert">
      <p>Discard what you have typed?</p>
      <button type="button" @click=${() => askToDiscard(app, dialog, false)}>Keep editing</button>
      <button type="button" class="danger" @click=${() => app.closeDialog(dialog)}>Discard</button>
    </div>`;
}

/** Renders, and moves the focus within the dialog. */
export function focusAfterRendering(app, selector) {
  app.draw();
  queueMicrotask(() => document.querySelector(`dialog:modal ${selector}`)?.focus());
}

export function troubleView(trouble) {
  return trouble && html`<p class="trouble" role="alert">${troubleText(trouble)} Trying again …</p>`;
}

function troubleText(failure) {
  if (failure.isOffline) return "No connection to the server.";
  return failure.isTemporary ? "The server is busy." : sentence(failure.message);
}

/** A moment that the server has named. */
export const timeView = (at) => html`<time datetime=${at}>${formatTime(at)}</time>`;

/** A message that is read out when it appears. */
export function errorView(message) {
  return html`<p class="error" role="alert">${message}</p>`;
}
