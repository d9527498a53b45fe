// The page around the dialogs: its head, the toolbar, the table of plants, and the status.

import { html } from "./lit-html/lit-html.js";
import { live } from "./lit-html/directives/live.js";
import { repeat } from "./lit-html/directives/repeat.js";
import { troubleView } from "./dialog.js";
import { formatPlants } from "./format.js";

export function layout(app) {
  const isCovered = app.dialog !== null || app.signIn !== null;
  return html`
    <header>
      <h1><img src="app/icon.svg" alt="" width="28" height="28"> Plant Store</h1>
      <nav>
        <a href="docs">API</a>
        ${app.session ? account(app) : null}
      </nav>
    </header>
    ${isCovered ? null : troubleView(app.trouble)}
    <main tabindex="-1">${app.session ? html`${toolbar(app)} ${plants(app)} ${pager(app)}` : null}</main>
    ${status(app)}`;
}

function account({ session, signOut }) {
  return html`
    <span class="account">${session.name}${session.mayWrite ? "" : " (read-only)"}</span>
    <button class="plain" @click=${signOut}>Sign out</button>`;
}

/** The region is always there, so that a screen reader notices what it says. */
function status(app) {
  const { text, action, isDeletion } = app.status;
  const undo = html`<button @click=${app.undo}>${isDeletion ? "Undo" : "Undo delete"}</button>`;
  return html`
    <div class="status ${text ? "" : "empty"}">
      <span role="status">${text}</span>
      ${text
        ? html`
          ${action && html`<button @click=${action.run}>${action.label}</button>`}
          ${app.deletions.isEmpty ? null : undo}
          <button class="plain" aria-label="Dismiss" @click=${app.dismiss}>✕</button>`
        : null}
    </div>`;
}

function toolbar(app) {
  const { list, mayWrite } = app.session;
  const { tag } = list.query;
  const jump = (event) => {
    event.preventDefault();
    app.jumpTo(event.target.elements.jump.value);
    event.target.reset();
  };
  return html`
    <div class="toolbar">
      <input class="search" type="search" aria-label="Search plants" placeholder="Search plants" autocomplete="off"
        spellcheck="false" .value=${live(app.searchText)} @input=${({ target }) => app.search(target.value)}>
      <div class="filter">
        <button @click=${app.chooseTag}>${tag || "All tags"}</button>
        ${tag
          ? html`<button aria-label="Show all tags" @click=${() => app.show({ tag: "", after: null })}>✕</button>`
          : null}
      </div>
      <form class="jump" @submit=${jump}>
        <input name="jump" aria-label="Jump to" placeholder="Jump to id" inputmode="text" autocomplete="off" size="10">
        <button>Go</button>
      </form>
      <div class="files">
        ${mayWrite ? html`<button @click=${app.importFile}>Import</button>` : null}
        <button @click=${app.exportAll}>Export</button>
      </div>
      ${mayWrite ? html`<button class="primary" @click=${app.add}>Add plant</button>` : null}
    </div>`;
}

function plants(app) {
  const { list, mayWrite } = app.session;
  if (list.failure) return html`<p class="empty" role="alert">${list.failure.message}.</p>`;
  if (list.plants === null) return loading(list);
  return html`
    <p class="summary">${summary(list)}</p>
    ${list.plants.length === 0
      ? empty(app)
      : html`
        <table class="plants" aria-busy=${list.isLoading}>
          <caption class="visually-hidden">Plants</caption>
          <thead>
            <tr>
              <th scope="col">Id</th><th scope="col">Name</th><th scope="col">Tag</th>
              ${mayWrite ? html`<th scope="col"><span class="visually-hidden">Actions</span></th>` : null}
            </tr>
          </thead>
          <tbody>${repeat(list.plants, ({ id }) => id, (plant) => row(app, plant))}</tbody>
        </table>`}`;
}

function row(app, plant) {
  const { list, mayWrite } = app.session;
  const { id, name, tag } = plant;
  const marks = `${list.fresh.has(id) ? "fresh" : ""} ${list.target === id ? "target" : ""}`;
  const nameId = `name-${id}`;
  const showTag = () => app.show({ tag, after: null });
  // The next row moves under the pointer, where a double click would delete it too.
  const remove = ({ detail }) => detail <= 1 && app.remove(plant);
  return html`
    <tr class=${marks} @animationend=${() => list.wasSeen(id)}>
      <td class="id">${id}</td>
      <td class="name"><button class="link" id=${nameId} @click=${() => app.open(id)}>${name}</button></td>
      <td class="tag-cell">${tag ? html`<button class="tag" @click=${showTag}>${tag}</button>` : null}</td>
      ${mayWrite
        ? html`
          <td class="actions">
            <button aria-describedby=${nameId} @click=${() => app.open(id, { isEditing: true })}>Edit</button>
            <button aria-describedby=${nameId} @click=${remove}>Delete</button>
          </td>`
        : null}
    </tr>`;
}

/** What an empty list means, and what to do. */
function empty(app) {
  const { list, mayWrite } = app.session;
  const { after, name, tag } = list.query;
  if (list.isLoading) return loading(list);
  if (after !== null) return html`<p class="empty">No more plants. “Previous” leads back.</p>`;
  if (name || tag) {
    return html`
      <div class="empty">
        <p>No plants match.</p>
        <button @click=${app.showAll}>Show all plants</button>
      </div>`;
  }
  return html`
    <div class="empty">
      <img src="app/icon.svg" alt="" width="64" height="64">
      <h2>No plants yet</h2>
      <p>${mayWrite ? "Add the first one, or import many from a file: drop it here." : "They appear here once someone adds one."}</p>
    </div>`;
}

function loading(list) {
  return html`<p class="empty">${searchProgress(list) || "Loading …"}</p>`;
}

function searchProgress({ searchedTo }) {
  return searchedTo ? `Searching … all ids up to ${searchedTo} are done` : "";
}

function summary(list) {
  const { after, name, tag } = list.query;
  const withTag = tag ? ` with the tag “${tag}”` : "";
  if (!name) return list.total === null ? "" : `${formatPlants(list.total)}${withTag}`;
  if (list.isLoading) return searchProgress(list) || "Searching …";
  const isAll = after === null && !list.hasMore;
  return `${isAll ? formatPlants(list.plants.length) : "Plants"}${withTag} matching “${name}”`;
}

function pager({ session: { list }, navigate }) {
  const isAtStart = list.query.after === null;
  if (list.plants === null || (isAtStart && !list.hasMore)) return null;
  return html`
    <nav class="pager" aria-label="Pages">
      <button ?disabled=${isAtStart} @click=${() => navigate(() => list.first())}>First</button>
      <button ?disabled=${isAtStart} @click=${() => navigate(() => list.previous())}>Previous</button>
      <button ?disabled=${!list.hasMore} @click=${() => navigate(() => list.next())}>Next</button>
    </nav>`;
}
