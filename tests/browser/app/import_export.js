// Imports and exports files: progress, failed rows, a drop, a stop, and an export that is cut off.

"use strict";

const { readFileSync } = require("node:fs");
const { assert, eventually, inBrowser, row, send, status } = require("../harness.js");

const ROWS = 100_000;
// Every row with such a number has a name that no plant may have.
const FAILING = 50;
const LISTED_FAILURES = 1000;

inBrowser(async (browser) => {
  const page = await browser.signedIn();
  const dialog = page.getByRole("dialog");
  const csvFile = (text, name = "plants.csv") => ({ name, mimeType: "text/csv", buffer: Buffer.from(text) });
  const begin = async (file, onConflict) => {
    await page.getByRole("button", { name: "Import" }).click();
    if (onConflict) await dialog.getByLabel("If an id is taken").selectOption(onConflict);
    await dialog.locator("input[type=file]").setInputFiles(file);
  };
  const close = () => dialog.getByRole("button", { name: "Close" }).click();
  const outcomes = () => dialog.locator(".outcomes div").allInnerTexts().then((texts) => texts.map((it) => it.split(/\s+/).join(" ")));

  // A hundred thousand rows. The connection is slow enough for the progress to be seen.
  const name = (id) => (id % FAILING === 0 ? " " : `Plant ${id} ${"of the herbarium ".repeat(8)}`);
  const lines = Array.from({ length: ROWS }, (_, index) => `${index + 1},"${name(index + 1)}",`);
  await page.evaluate(() => {
    window.seen = new Set();
    setInterval(() => window.seen.add(document.querySelector("dialog progress")?.value), 5);
  });
  const network = await page.context().newCDPSession(page);
  const limit = (uploadThroughput) => network.send("Network.emulateNetworkConditions", {
    offline: false, latency: 0, downloadThroughput: -1, uploadThroughput,
  });
  await limit(8_000_000);
  await begin(csvFile(`id,name,tag\n${lines.join("\n")}\n`));
  await dialog.getByText("plants.csv").waitFor();
  await dialog.getByText("Failed rows: the first 1,000").waitFor();
  await limit(-1);
  const progress = await page.evaluate(() => [...window.seen].filter((value) => value > 0 && value < 1));
  assert.ok(progress.length >= 3, `the progress was ${progress}`);
  assert.deepEqual(await outcomes(), ["added 98,000", "failed 2,000"]);
  assert.equal(await status(page), "Imported plants.csv: 98,000 plants added; 2,000 rows failed.");
  assert.equal(await dialog.locator("tbody tr").count(), LISTED_FAILURES);
  const failedLine = FAILING + 1;
  const first = await dialog.locator("tbody tr").first().getByRole("cell").allTextContents();
  assert.equal(first[0], String(failedLine));
  assert.match(first[1], /name must hold a character/);

  // The failed rows as a file, with their text.
  const [failed] = await Promise.all([
    page.waitForEvent("download"),
    dialog.getByRole("button", { name: "Download the failed rows" }).click(),
  ]);
  assert.equal(failed.suggestedFilename(), "failed-rows.csv");
  const failedRows = readFileSync(await failed.path(), "utf8").trim().split("\r\n");
  assert.equal(failedRows.length, 1 + LISTED_FAILURES);
  assert.equal(failedRows[0], "line,error,message,row");
  assert.match(failedRows[1], /^51,1005,name must hold [^,]*,"50,"" "","$/);
  assert.match(failedRows.at(-1), /^50001,1005,name must hold [^,]*,"50000,"" "","$/);
  await close();
  await page.getByText("98,000 plants", { exact: true }).waitFor();
  await row(page, "1").waitFor();

  // Ids that are taken: reported, kept, or replaced. Also as JSON, whatever the name of the file.
  const again = csvFile('id,name,tag\n1,Rosa,\n100001,"Acer, campestre",Sapindaceae\n', "again");
  await begin(again);
  await dialog.getByText("a plant with id 1 exists already").waitFor();
  assert.deepEqual(await outcomes(), ["added 1", "failed 1"]);
  await close();
  await begin(again, "skip");
  await eventually(outcomes, ["added 0", "kept as they were 2"]);
  await close();
  await begin(csvFile('[{"id":1,"name":"Rosa"},{"id":9223372036854775807,"name":"Salix"}]'), "replace");
  await eventually(outcomes, ["added 1", "replaced 1"]);
  await close();
  await row(page, "1").getByText("Rosa", { exact: true }).waitFor();

  // A file that is dropped on the page.
  const drop = (text) => page.evaluate((text) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([text], "dropped.ndjson"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  }, text);
  await drop('{"id":-9223372036854775808,"name":"Dropped"}\n{"id":-1}\n');
  await dialog.getByText("Failed rows").first().waitFor();
  assert.deepEqual(await outcomes(), ["added 1", "failed 1"]);
  await close();
  await row(page, "-9223372036854775808").getByText("Dropped").waitFor();

  // A file without plants.
  browser.expect(/status of 400/);
  for (const text of ["", "a letter to no one\n"]) {
    await begin(csvFile(text));
    await dialog.getByRole("alert").filter({ hasText: "id" }).waitFor();
    await close();
  }

  // A proxy answers with a page of its own.
  await page.route(/import/, (route) => route.fulfill({ status: 200, body: "<h1>Sign in to the network</h1>" }));
  await begin(csvFile("id,name\n1,Rosa\n"));
  await dialog.getByRole("alert").getByText("the answer 200 is not from a plant store").waitFor();
  await close();
  await page.unroute(/import/);

  // Failed rows that go over several lines, that a spreadsheet would take for formulas, and that stand in one line.
  const downloadFailed = async () => {
    const failedRows = dialog.getByRole("button", { name: "Download the failed rows" });
    const [download] = await Promise.all([page.waitForEvent("download"), failedRows.click()]);
    return readFileSync(await download.path(), "utf8");
  };
  await begin(csvFile('\ufeffid,name\r\nx,"two\r\nlines"\r\n=1+1,f\r\n'));
  const odd = (await downloadFailed()).replace(/,1\d{3},("[^"]*"|[^,\r]*),/g, ",…,");
  assert.equal(odd, 'line,error,message,row\r\n2,…,"x,""two\nlines"""\r\n4,…,"\'=1+1,f"\r\n');
  await close();
  await begin(csvFile('[{"id":"x"},{"id":"y"}]'));
  for (const line of (await downloadFailed()).trim().split("\r\n").slice(1)) assert.match(line, /^1,1004,.*,$/);
  await close();
  await begin(csvFile('\ufeff{"id":7777777,"name":"With a byte order mark"}\n'));
  await eventually(outcomes, ["added 1"]);
  await close();
  await send("DELETE", "plants/7777777");

  // A running import is not left by accident, and can be stopped. What was chosen for it stays chosen.
  await limit(100_000);
  await begin(csvFile(`id,name\n${lines.join("\n")}\n`), "replace");
  await dialog.getByRole("progressbar").waitFor();
  for (let times = 0; times < 3; times++) await page.keyboard.press("Escape");
  await dialog.getByRole("button", { name: "Stop" }).click();
  await dialog.getByText("Stopped. Rows that had arrived are stored.").waitFor();
  assert.equal(await dialog.getByLabel("If an id is taken").inputValue(), "replace");
  await limit(-1);
  await close();

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
    const headers = { Authorization: `Bearer ${process.env.PLANTS_TOKEN}`, Accept: accept };
    const expected = await fetch(`${process.env.PLANTS_URL}/plants/export`, { headers });
    const bytes = Buffer.from(await expected.arrayBuffer());
    assert.ok(bytes.equals(readFileSync(await download.path())), `${file} is another export`);
    await eventually(() => status(page), `Exported 98,003 plants to ${file}.`);
  }

  // An export that a proxy cuts off, at a line end or within a line, is not saved.
  const all = (await send("GET", "plants/export")).text;
  const half = all.indexOf("\n", all.length / 2) + 1;
  page.on("download", () => browser.complaints.push("a part of an export was saved"));
  for (const end of [half, half + 10]) {
    await page.route(/export/, (route) => route.fulfill({ body: all.slice(0, end), headers: { "X-Total-Count": "98003" } }));
    await exportAs("NDJSON");
    await dialog.getByText("The export was cut off on the way. Nothing was saved; try again.").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.unroute(/export/);
  }
});
