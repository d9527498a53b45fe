// What a person does at / and at /docs, in Firefox.

"use strict";

const { add, assert, inBrowser, press, row, send, signIn, PLANTS_URL } = require("./harness.js");

// One more than the largest number that JavaScript counts to exactly.
const LARGE_ID = "9007199254740993";

inBrowser(async (browser) => {
  const page = await browser.tab(await browser.person());
  const dialog = page.getByRole("dialog");
  await signIn(page);

  await add(page, LARGE_ID, "Salix alba", "Salicaceae");
  await row(page, LARGE_ID).waitFor();
  assert.match((await send("GET", `plants/${LARGE_ID}`)).text, /"Salix alba"/, "another id is stored");
  await row(page, LARGE_ID).getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Name").fill("Salix caprea");
  await press(dialog, "Save");
  await row(page, LARGE_ID).getByText("Salix caprea").waitFor();

  await send("PUT", "plants/1", '{"name":"Rosa canina"}');
  await row(page, "1").getByText("Rosa canina").waitFor();
  await page.getByLabel("Search plants").fill("salix");
  await row(page, "1").waitFor({ state: "detached" });
  await page.getByLabel("Search plants").fill("");
  await row(page, "1").waitFor();

  await row(page, LARGE_ID).getByRole("button", { name: "Delete" }).click();
  await row(page, LARGE_ID).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Undo" }).first().click();
  await row(page, LARGE_ID).getByText("Salix caprea").waitFor();

  await press(page, "Import");
  await dialog.locator("input[type=file]").setInputFiles({
    name: "plants.csv", mimeType: "text/csv", buffer: Buffer.from("id,name\n2,Bellis perennis\n"),
  });
  await press(dialog, "Import 1 plant");
  await row(page, "2").getByText("Bellis perennis").waitFor();
  await press(dialog, "Close");

  await page.getByRole("link", { name: "API", exact: true }).click();
  await page.getByRole("button", { name: "Signed in" }).waitFor();
  assert.equal(page.url(), `${PLANTS_URL}/docs`);
}, "firefox");
