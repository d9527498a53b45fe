// The page around the dialogs: its head, the toolbar, the table of plants, and the status.

import { html } from "./lit-html/lit-html.js";
import { live } from "./lit-html/directives/live.js";
import { repeat } from "./lit-html/directives/repeat.js";
import { counted } from "./files.js";

export function pageView(app) {
  return html`
    <header>
      <h1><img src="page/icon.svg" alt="" width="28" height="28"> Plant Store</h1>
      <nav>
        <a href="docs">API</a>
        ${app.session ? account(app) : null}
      </nav>
    </header>
    <p class="trouble" role="alert" ?hidden=${!app.trouble}>${app.trouble && troubleText(app.trouble)}</p>
    <main>${app.session ? html`${toolbar(app)} ${plants(app)} ${pager(app)}` : null}</main>
    <div class="status" ?hidden=${!app.status.text}>
      <span role="status">${app.status.text}</span>
      ${app.status.action && html`<button @click=${app.status.action.run}>${app.status.action.label}</button>`}
      <button class="plain" aria-label="Dismiss" @click=${() => app.announce("")}>✕</button>
    </div>`;
}

function account({ session, signOut }) {
  return html`
    <span class="account">${session.name}${session.mayWrite ? "" : " (may only read)"}</span>
    <button class="plain" @click=${signOut}>Sign out</button>`;
}

function troubleText(failure) {
  if (failure.isOffline) return "No connection to the server. Trying again …";
  return failure.isTemporary ? "The server is busy. Trying again …" : `${failure.message}. Trying again …`;
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
        maxlength="255" spellcheck="false" .value=${live(app.searchText)} @input=${({ target }) => app.search(target.value)}>
      <div class="filter">
        <button @click=${app.chooseTag}>${tag || "All tags"}</button>
        ${tag
          ? html`<button aria-label="Show all tags" @click=${() => app.show({ tag: "", after: null })}>✕</button>`
          : null}
      </div>
      <form class="jump" @submit=${jump}>
        <input name="jump" aria-label="Jump to" placeholder="Jump to id" inputmode="numeric" autocomplete="off" size="10">
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
  if (list.failure) return html`<p class="empty">${list.failure.message}.</p>`;
  if (list.plants === null) return html`<p class="empty">${searchProgress(list) || "Loading …"}</p>`;
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
  return html`
    <tr class=${marks}>
      <td class="id">${id}</td>
      <td class="name"><button class="link" id=${nameId} @click=${() => app.open(id)}>${name}</button></td>
      <td>${tag ? html`<button class="tag" @click=${() => app.show({ tag, after: null })}>${tag}</button>` : null}</td>
      ${mayWrite
        ? html`
          <td class="actions">
            <button aria-describedby=${nameId} @click=${() => app.open(id, true)}>Edit</button>
            <button aria-describedby=${nameId} @click=${() => app.remove(plant)}>Delete</button>
          </td>`
        : null}
    </tr>`;
}

/** What an empty list means, and what to do. */
function empty(app) {
  const { list, mayWrite } = app.session;
  const { after, name, tag } = list.query;
  if (list.isLoading) return html`<p class="empty">${searchProgress(list) || "Loading …"}</p>`;
  if (name || tag) {
    return html`
      <div class="empty">
        <p>No ${after === null ? "" : "further "}plant is like that.</p>
        <button @click=${app.clearFilter}>Show all plants</button>
      </div>`;
  }
  if (after !== null) return html`<p class="empty">There is no plant beyond this point. Go back with “Previous”.</p>`;
  return html`
    <div class="empty">
      <img src="page/icon.svg" alt="" width="64" height="64">
      <h2>No plants yet</h2>
      <p>${mayWrite ? "Add the first one, or import many from a file: drop it here." : "They appear here once someone adds one."}</p>
    </div>`;
}

function searchProgress({ searchedTo }) {
  return searchedTo ? `Searching … all ids up to ${searchedTo} are done` : "";
}

function summary(list) {
  const { after, name, tag } = list.query;
  const withTag = tag ? ` with the tag “${tag}”` : "";
  if (!name) return `${plantCount(list.total)}${withTag}`;
  if (list.isLoading) return searchProgress(list) || "Searching …";
  if (after === null && !list.hasMore) return `${plantCount(list.plants.length)}${withTag} like “${name}”`;
  return `Plants${withTag} like “${name}”`;
}

function plantCount(count) {
  return `${counted(count)} ${String(count) === "1" ? "plant" : "plants"}`;
}

function pager(app) {
  const { list } = app.session;
  const isAtStart = list.query.after === null;
  const isAtEnd = !list.hasMore;
  const button = (label, direction, isEnd) => html`
    <button ?disabled=${isEnd || list.plants === null} @click=${() => app.turn(direction)}>${label}</button>`;
  if (isAtStart && isAtEnd) return null;
  return html`
    <nav class="pager" aria-label="Pages">
      ${button("First", "first", isAtStart)} ${button("Previous", "previous", isAtStart)}
      ${button("Next", "next", isAtEnd)}
    </nav>`;
}
