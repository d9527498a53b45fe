// What a person does in the dialog that imports a file.

"use strict";

/** A file as a person chooses it. */
const csvFile = (text, name = "plants.csv") => ({ name, mimeType: "text/csv", buffer: Buffer.from(text) });

/** The steps of an import on a page. */
function openImport(page) {
  const dialog = page.getByRole("dialog");
  const importButton = dialog.getByRole("button", { name: /^Import [\d,]+ plants?$/ });
  const choose = async (file) => {
    await page.getByRole("button", { name: "Import" }).click();
    await dialog.locator("input[type=file]").setInputFiles(file);
  };
  const begin = async (file, onConflict) => {
    await choose(file);
    if (onConflict) await dialog.getByLabel("If an id is taken").selectOption(onConflict);
    await importButton.click();
  };
  const firstRows = () => dialog.locator(".preview tbody tr").evaluateAll((rows) => {
    return rows.map((row) => [...row.cells].map((cell) => cell.textContent));
  });
  const outcomes = async () => {
    const texts = await dialog.locator(".outcomes div").allInnerTexts();
    return texts.map((text) => text.replace(/\s+/g, " "));
  };
  let imports = 0;
  page.on("request", (request) => {
    if (request.method() === "POST" && new URL(request.url()).pathname === "/plants/import") imports += 1;
  });
  return { begin, choose, dialog, firstRows, importButton, outcomes, sent: () => imports };
}

module.exports = { csvFile, openImport };
