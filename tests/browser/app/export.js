// Exports all plants and the current search, whole or not at all.

"use strict";

const { readFileSync } = require("node:fs");
const {
  assert, eventually, inBrowser, press, row, send, status, store, PLANTS_TOKEN, PLANTS_URL,
} = require("../harness.js");

const ROWS = 10_000;

inBrowser(async (browser) => {
  const rows = Array.from({ length: ROWS }, (_, index) => `${index + 1},Plant ${index + 1},`);
  await store([...rows, '100001,"Acer, campestre",Sapindaceae']);
  const page = await browser.signedIn();
  const dialog = page.getByRole("dialog");

  // Exports all plants, as the server has them.
  const exportAs = async (format) => {
    await page.getByRole("button", { name: "Export" }).click();
    await dialog.getByRole("button", { name: format, exact: true }).click();
  };
  for (const [format, accept, file] of [
    ["CSV", "text/csv", "plants.csv"],
    ["Spreadsheet", "text/vnd.plantd.spreadsheet", "plants-spreadsheet.csv"],
    ["NDJSON", "application/x-ndjson", "plants.ndjson"],
  ]) {
    const [download] = await Promise.all([page.waitForEvent("download"), exportAs(format)]);
    assert.equal(download.suggestedFilename(), file);
    const headers = { Authorization: `Bearer ${PLANTS_TOKEN}`, Accept: accept };
    const expected = await fetch(`${PLANTS_URL}/plants/export`, { headers });
    const bytes = Buffer.from(await expected.arrayBuffer());
    assert.ok(bytes.equals(readFileSync(await download.path())), `${file} is another export`);
    await eventually(() => status(page), `Exported 10,001 plants to ${file}.`);
  }

  // Exports the current search. The server does not count what a name matches. After the last row, the search goes on without
  // a find for a while, which is no end of it.
  await page.getByLabel("Search plants").fill("Acer");
  await page.getByText("1 plant matching “Acer”").waitFor();
  const [filters, pages] = [[], []];
  let found = "[]";
  await page.route(/export/, (route) => {
    filters.push(new URL(route.request().url()).search);
    return route.fulfill({ body: '{"id":100001,"name":"Acer, campestre"}\n' });
  });
  await page.route(/plants\?limit=1&/, (route) => {
    const { searchParams } = new URL(route.request().url());
    assert.equal(searchParams.get("name"), "Acer");
    pages.push(searchParams.get("after"));
    const link = '</plants?limit=1&after=200000&name=Acer>; rel="next"';
    const isUnderway = searchParams.get("after") === "100001";
    return route.fulfill(isUnderway ? { body: "[]", headers: { Link: link } } : { body: found });
  });
  const [ofSearch] = await Promise.all([page.waitForEvent("download"), exportAs("NDJSON")]);
  assert.equal(ofSearch.suggestedFilename(), "plants-search.ndjson");
  await eventually(() => status(page), "Exported 1 plant to plants-search.ndjson.");
  found = '[{"id":200001,"name":"Acer"}]';
  await exportAs("NDJSON");
  await dialog.getByText("The export was cut off on the way, or there is a new plant.").waitFor();
  assert.deepEqual(filters, ["?name=Acer", "?name=Acer"]);
  assert.deepEqual(pages, ["100001", "200000", "100001", "200000"]);
  await page.unroute(/export/);
  await page.unroute(/plants\?limit=1&/);
  await press(dialog, "Cancel");
  // Its tag too, or all plants.
  await page.getByLabel("Search plants").fill("");
  await row(page, "1").waitFor();
  await page.getByRole("button", { name: "All tags" }).click();
  await dialog.getByRole("button", { name: "Sapindaceae" }).click();
  await page.getByText("1 plant with the tag “Sapindaceae”").waitFor();
  await page.getByRole("button", { name: "Export" }).click();
  assert.ok(await dialog.getByLabel("The current search (tag “Sapindaceae”)").isChecked());
  await dialog.getByLabel("All plants").check();
  const [ofAll] = await Promise.all([
    page.waitForEvent("download"), dialog.getByRole("button", { name: "CSV", exact: true }).click(),
  ]);
  assert.equal(ofAll.suggestedFilename(), "plants.csv");
  await eventually(() => status(page), "Exported 10,001 plants to plants.csv.");
  await page.getByRole("button", { name: "Show all tags" }).click();

  // An export that a proxy cuts off is not saved: neither at the end of a line, nor within a line, nor within a plant that was
  // created meanwhile, after all the announced rows.
  const all = (await send("GET", "plants/export")).text;
  const half = all.indexOf("\n", all.length / 2) + 1;
  page.on("download", () => browser.complaints.push("a part of an export was saved"));
  for (const [end, total] of [[half, "10001"], [half + 10, "10001"], [half + 10, "1"]]) {
    await page.route(/export/, (route) => route.fulfill({ body: all.slice(0, end), headers: { "X-Total-Count": total } }));
    await exportAs("NDJSON");
    await dialog.getByText("The export was cut off on the way. Nothing was saved; try again.").waitFor();
    await press(dialog, "Cancel");
    await page.unroute(/export/);
  }
});
