// What a person sees when someone else has changed or deleted the plant that is being edited.

import { html } from "./lit-html/lit-html.js";
import { compareWords, partAfter, partBefore } from "./word_diff.js";

/** `theirs` is the plant as it is stored now, or `{ isGone: true }`; `mine` is what the person has typed. */
export function conflictView(theirs, mine) {
  if (theirs.isGone) {
    return html`
      <p class="conflict" role="alert">
        Someone else has deleted this plant. “Add it again” stores it as you have typed it; “Cancel” leaves it deleted.
      </p>`;
  }
  const names = compareWords(theirs.name, mine.name);
  const tags = compareWords(theirs.tag ?? "", mine.tag ?? "");
  const version = (title, { tag }, marked) => html`
    <div>
      <h3>${title}</h3>
      <p class="name">${names.map(marked)}</p>
      <p>${tag ? html`<span class="tag">${tags.map(marked)}</span>` : "no tag"}</p>
    </div>`;
  return html`
    <section class="conflict" aria-label="Both versions">
      <p role="alert">Someone else has changed this plant since you opened it. What differs is marked.</p>
      <div class="versions">${version("Stored now", theirs, partBefore)} ${version("Yours", mine, partAfter)}</div>
    </section>`;
}
