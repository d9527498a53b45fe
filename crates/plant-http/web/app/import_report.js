// What an import has done: how many plants, and the rows that failed.

import { html } from "./lit-html/lit-html.js";
import { csvOf } from "./csv.js";
import { rowsAt, saveFile } from "./files.js";
import { formatCount, sentence } from "./format.js";

export function outcomesView({ created, replaced, skipped, failed }) {
  const outcomes = [["added", created], ["replaced", replaced], ["kept as they were", skipped], ["failed", failed]];
  const isShown = ([label, count]) => label === "added" || count !== "0";
  const outcome = ([label, count]) => html`
    <div class=${label === "failed" ? "failed" : ""}><dt>${label}</dt><dd>${formatCount(count)}</dd></div>`;
  return html`<dl class="outcomes">${outcomes.filter(isShown).map(outcome)}</dl>`;
}

export function failuresView({ failed, errors }, onDownload) {
  const isPart = BigInt(failed) > BigInt(errors.length);
  return html`
    <h3>Failed rows${isPart ? `: the first ${formatCount(errors.length)}` : ""}</h3>
    <div class="scroll" tabindex="0" role="region" aria-label="Failed rows">
      <table>
        <thead><tr><th scope="col">Line</th><th scope="col">What is wrong</th></tr></thead>
        <tbody>
          ${errors.map(({ line, message }) => html`<tr><td class="number">${line}</td><td>${sentence(message)}</td></tr>`)}
        </tbody>
      </table>
    </div>
    <button @click=${onDownload}>Download the failed rows</button>`;
}

/** Hands the failed rows to the person, as they stand in the file. */
export async function saveFailedRows(file, errors) {
  const rowTexts = await rowsAt(file, errors.map(({ line }) => Number(line)));
  const rows = errors.map(({ line, error, message }) => [line, error, message, rowTexts.get(Number(line)) ?? ""]);
  const csv = csvOf([["line", "error", "message", "row"], ...rows]);
  saveFile(new Blob([csv], { type: "text/csv" }), "failed-rows.csv");
}
