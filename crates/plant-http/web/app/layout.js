// The page around the dialogs: its head, the plants or what stands in for them, and what happened last.

import { html } from "./lit-html/lit-html.js";
import { troubleView } from "./dialog.js";
import { sentence } from "./format.js";
import { pager, rangeText, searchProgress } from "./pager.js";
import { parseId } from "./plant.js";
import { plantTable } from "./plant_table.js";
import { isPhone } from "./screen.js";
import { account, allTags, toolbar } from "./toolbar.js";

export function layout(app) {
  const isCovered = app.dialog !== null || app.signIn !== null;
  return html`
    ${head(app)}
    ${isCovered ? null : troubleView(app.trouble)}
    <main tabindex="-1">${app.session ? html`${toolbar(app)} ${plants(app)}` : null}</main>
    ${app.toasts.view()}`;
}

function head(app) {
  const { session } = app;
  return html`
    <header>
      <h1><img src="app/icon.svg" alt="" width="28" height="28"> Plant Store</h1>
      <nav aria-label="Account">
        ${session
          ? html`
            <span class="token">${session.name}</span>
            ${session.mayWrite ? null : html`<span class="scope">read-only</span>`}
            ${isPhone() ? null : account(app)}`
          : html`<a href="docs">API</a>`}
      </nav>
    </header>`;
}

function plants(app) {
  const { list } = app.session;
  if (list.failure) return refused(app);
  if (list.plants === null) return loading(list);
  return html`
    <div class="place">
      <p class="position">${rangeText(list)}</p>
      ${isPhone() ? allTags(app) : null}
      ${pager(app, "top")}
    </div>
    ${list.plants.length === 0 ? empty(app) : html`${plantTable(app)} ${pager(app, "bottom")}`}`;
}

function loading(list) {
  return html`
    <div class="empty">
      <progress aria-label="Loading"></progress>
      <p>${searchProgress(list) || "Loading …"}</p>
    </div>`;
}

function refused(app) {
  return html`
    <div class="empty">
      <h2>The plants cannot be listed</h2>
      <p role="alert">${sentence(app.session.list.failure.message)}</p>
      ${showAll(app)}
    </div>`;
}

/** What an empty list means, and what to do. */
function empty(app) {
  const { list, mayWrite } = app.session;
  const { after, name, tag } = list.query;
  if (list.isLoading) return loading(list);
  if (after !== null) {
    return html`
      <div class="empty">
        <h2>No more plants</h2>
        <p>The list ends before this page. “Previous” leads back.</p>
      </div>`;
  }
  if (name || tag) {
    return html`
      <div class="empty">
        <h2>No plants match</h2>
        ${name && html`<p>The search looks at names only.</p>`}
        ${tag ? null : html`<button @click=${app.chooseTag}>Choose a tag</button>`}
        ${parseId(name) !== null ? html`<button @click=${() => app.jumpTo(name)}>Jump to id ${parseId(name)}</button>` : null}
        ${showAll(app)}
      </div>`;
  }
  return html`
    <div class="empty">
      <img src="app/icon.svg" alt="" width="64" height="64">
      <h2>No plants yet</h2>
      <p>${mayWrite ? "Add the first one, or import many from a file: drop it here." : "They appear here once someone adds one."}</p>
    </div>`;
}

const showAll = ({ showAll }) => html`<button @click=${showAll}>Show all plants</button>`;
