// The table of plants.

import { html } from "./lit-html/lit-html.js";
import { repeat } from "./lit-html/directives/repeat.js";
import { isPhone } from "./screen.js";

const MIDDLE_BUTTON = 1;

export function plantTable(app) {
  const { list, mayWrite } = app.session;
  const { plants } = list;
  const active = app.activeRow.indexIn(plants);
  const hasActions = mayWrite && !isPhone();
  return html`
    <table class="plants" aria-busy=${list.isLoading}>
      <caption class="visually-hidden">Plants. The arrow keys move between the rows.</caption>
      <colgroup><col class="id"><col class="name"><col class="tag-cell">${hasActions ? html`<col class="actions">` : null}</colgroup>
      <thead>
        <tr>
          <th scope="col">Id</th><th scope="col">Name</th><th scope="col">Tag</th>
          ${hasActions ? html`<th scope="col"><span class="visually-hidden">Actions</span></th>` : null}
        </tr>
      </thead>
      <tbody>
        ${repeat(plants, ({ id }) => id, (plant, index) => row(app, plant, { index, isActive: index === active, hasActions }))}
      </tbody>
    </table>`;
}

function row(app, plant, { index, isActive, hasActions }) {
  const { list } = app.session;
  const { id, name } = plant;
  const marks = `${list.fresh.has(id) ? "fresh" : ""} ${list.target === id ? "target" : ""}`;
  // Only the active row has stops for the Tab key.
  const stop = isActive ? 0 : -1;
  const activate = () => app.activate(id, index);
  const show = (event) => {
    // The browser opens another window, or saves the link.
    if (event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) openTab(event);
    else app.open(id);
  };
  return html`
    <tr class=${marks} @animationend=${() => list.wasSeen(id)} @focusin=${activate}>
      <td class="id">${id}</td>
      <td class="name"><a id="name-${id}" href="#plant=${id}" tabindex=${stop} title=${name}
        @click=${show} @auxclick=${(event) => event.button === MIDDLE_BUTTON && openTab(event)}>${name}</a></td>
      <td class="tag-cell">${tag(app, plant, stop)}</td>
      ${hasActions ? actions(app, plant, stop) : null}
    </tr>`;
}

/** Opens a link in another tab. Unlike a tab that the browser opens by itself, that one is signed in too. */
function openTab(event) {
  event.preventDefault();
  open(event.currentTarget.href);
}

/** On a phone, the whole row opens the plant. */
function tag(app, { tag }, stop) {
  if (!tag) return null;
  if (isPhone()) return html`<span class="tag">${tag}</span>`;
  const show = () => app.show({ tag, after: null });
  return html`<button class="tag" title=${tag} tabindex=${stop} @click=${show}>${tag}</button>`;
}

function actions(app, plant, stop) {
  const nameId = `name-${plant.id}`;
  const edit = () => app.open(plant.id, { isEditing: true });
  // The next row moves under the pointer, where a double click would delete it too.
  const remove = ({ detail }) => detail <= 1 && app.changes.delete(plant);
  return html`
    <td class="actions">
      <button tabindex=${stop} aria-describedby=${nameId} @click=${edit}>Edit</button>
      <button class="danger" tabindex=${stop} aria-describedby=${nameId} @click=${remove}>Delete</button>
    </td>`;
}
