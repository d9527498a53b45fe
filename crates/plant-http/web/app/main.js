// Starts the page.

import { html, render } from "./lit-html/lit-html.js";
import { App } from "./app.js";
import { keepsIds } from "./server.js";

const tooOld = html`
  <main class="empty">
    <h1>Plant Store</h1>
    <p>This page needs a newer browser: this one would round the ids of plants.</p>
  </main>`;

if (keepsIds) new App().start();
else render(tooOld, document.body);
