// What can be done with the list: search, add, and the tools. On a phone, the tools are in a menu.

import { html } from "./lit-html/lit-html.js";
import { shortcut } from "./keys.js";
import { isPhone } from "./screen.js";

export function toolbar(app) {
  return html`
    <div class="toolbar">
      <input class="search" type="search" aria-label="Search plants" placeholder="Search names" autocomplete="off"
        spellcheck="false" aria-keyshortcuts=${shortcut("/")} .value=${app.searchText}
        @input=${({ target }) => app.search(target.value)}>
      ${isPhone() ? null : tools(app)}
      ${app.session.mayWrite
        ? html`<button class="primary" aria-keyshortcuts=${shortcut("a")} @click=${app.add}>Add plant</button>`
        : null}
      ${isPhone() ? menu(app) : null}
    </div>`;
}

function tools(app) {
  const jump = (event) => {
    event.preventDefault();
    app.jumpTo(event.target.elements.jump.value);
    event.target.reset();
  };
  return html`
    <div class="filter">
      <button @click=${app.chooseTag}>${app.session.list.query.tag || "All tags"}</button> ${allTags(app)}
    </div>
    <form class="jump" @submit=${jump}>
      <input name="jump" aria-label="Jump to" placeholder="Jump to id" inputmode="text" autocomplete="off" size="10">
      <button>Go</button>
    </form>
    <div class="files">
      ${app.session.mayWrite ? html`<button @click=${app.importFile}>Import</button>` : null}
      <button @click=${app.exportAll}>Export</button>
    </div>`;
}

/** Leaves the tag that plants are listed by, if there is one. */
export function allTags(app) {
  if (!app.session.list.query.tag) return null;
  return html`<button aria-label="Show all tags" @click=${() => app.show({ tag: "", after: null })}>✕</button>`;
}

/** The links and buttons that have nothing to do with the list. */
export function account({ session, showKeys, showWebhooks, signOut }) {
  return html`
    <a href="docs">API</a>
    ${session.mayWrite ? html`<button class="plain" @click=${showWebhooks}>Webhooks</button>` : null}
    <button class="plain" aria-keyshortcuts=${shortcut("?")} @click=${showKeys}>Keys</button>
    <button class="plain" @click=${signOut}>Sign out</button>`;
}

/** The browser closes it at the Escape key and at a click elsewhere. What is chosen in it closes it too. */
function menu(app) {
  const close = ({ type, target, currentTarget }) => {
    if (type === "submit" || target.closest("button:not(form button), a")) currentTarget.hidePopover();
  };
  return html`
    <button class="more" aria-label="More" popovertarget="menu">⋯</button>
    <div id="menu" popover role="group" aria-label="More" @click=${close} @submit=${close}>
      ${tools(app)}
      <div class="account-links">${account(app)}</div>
    </div>`;
}
