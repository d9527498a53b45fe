// Imports files: progress, failed rows, ids that are taken, a drop, and a stop.

"use strict";

const { readFileSync } = require("node:fs");
const { assert, eventually, inBrowser, press, row, status } = require("../harness.js");
const { csvFile, openImport } = require("./import_steps.js");

const ROWS = 100_000;
// Every row with such a number has a name that no plant may have.
const FAILING = 50;
const LISTED_FAILURES = 1000;

inBrowser(async (browser) => {
  const page = await browser.signedIn();
  const { begin, choose, dialog, firstRows, importButton, outcomes, sent } = openImport(page);

  // A hundred thousand rows. The connection is slow enough for the progress to be seen.
  const name = (id) => (id % FAILING === 0 ? " " : `Plant ${id}`);
  const lines = Array.from({ length: ROWS }, (_, index) => `${index + 1},"${name(index + 1)}",`);
  await page.evaluate(() => {
    window.seen = new Set();
    window.watch = setInterval(() => window.seen.add(document.querySelector("dialog progress")?.value), 5);
  });
  const network = await page.context().newCDPSession(page);
  const limit = (uploadThroughput) => network.send("Network.emulateNetworkConditions", {
    offline: false, latency: 0, downloadThroughput: -1, uploadThroughput,
  });
  await limit(1_000_000);
  await choose(csvFile(`id,name,tag\n${lines.join("\n")}\n`));
  await dialog.getByText("plants.csv").waitFor();
  await dialog.getByText("100,000 rows, of which the first 5 are:").waitFor();
  assert.deepEqual((await firstRows()).map(([id]) => id), ["1", "2", "3", "4", "5"]);
  assert.equal(sent(), 0, "a file was sent before a person has seen what is in it");
  await dialog.getByRole("button", { name: "Import 100,000 plants" }).click();
  await dialog.getByText("Failed rows: the first 1,000").waitFor();
  await limit(-1);
  const progress = await page.evaluate(() => {
    clearInterval(window.watch);
    return [...window.seen].filter((value) => value > 0 && value < 1);
  });
  assert.ok(progress.length >= 3, `the progress was ${progress}`);
  assert.deepEqual(await outcomes(), ["added 98,000", "failed 2,000"]);
  assert.equal(sent(), 1);
  assert.equal(await status(page), "", "the report is repeated behind the dialog");
  // The rows scroll below a header that stays, and a border and a scrollbar say so.
  const scroll = dialog.getByRole("region", { name: "Failed rows" });
  const [header, top] = await scroll.evaluate((region) => {
    region.scrollTo(0, 500);
    return [region.querySelector("th"), region].map((element) => element.getBoundingClientRect().top);
  });
  assert.ok(Math.abs(header - top) <= 1, `the header is at ${header}, and the rows begin at ${top}`);
  assert.equal(await dialog.locator("tbody tr").count(), LISTED_FAILURES);
  const failedLine = FAILING + 1;
  const first = await dialog.locator("tbody tr").first().getByRole("cell").allTextContents();
  assert.equal(first[0], String(failedLine));
  assert.match(first[1], /^Name must hold a character .*\.$/);

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
  await press(dialog, "Close");
  await page.getByText("98,000 plants", { exact: true }).waitFor();
  await row(page, "1").waitFor();

  // Ids that are taken: reported, kept, or replaced. Also as JSON, whatever the name of the file.
  const again = csvFile('id,name,tag\n1,Rosa,\n100001,"Acer, campestre",Sapindaceae\n', "again");
  await begin(again);
  await dialog.getByText("a plant with id 1 exists already").waitFor();
  assert.deepEqual(await outcomes(), ["added 1", "failed 1"]);
  await press(dialog, "Close");
  await begin(again, "skip");
  await eventually(outcomes, ["added 0", "kept as they were 2"]);
  await press(dialog, "Close");
  await begin(csvFile('[{"id":1,"name":"Rosa"},{"id":9223372036854775807,"name":"Salix"}]'), "replace");
  await eventually(outcomes, ["added 1", "replaced 1"]);
  await press(dialog, "Close");
  await row(page, "1").getByText("Rosa", { exact: true }).waitFor();

  // A file that is dropped on the page.
  const drop = (text) => page.evaluate((text) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([text], "dropped.ndjson"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  }, text);
  await drop('{"id":-9223372036854775808,"name":"Dropped"}\n{"id":-1}\n');
  await dialog.getByText("dropped.ndjson").waitFor();
  await eventually(firstRows, [["-9223372036854775808", "Dropped", ""], ["-1", "", ""]]);
  await importButton.click();
  await dialog.getByText("Failed rows").first().waitFor();
  assert.deepEqual(await outcomes(), ["added 1", "failed 1"]);
  await press(dialog, "Close");
  await row(page, "-9223372036854775808").getByText("Dropped").waitFor();

  // A running import is not left by accident, and can be stopped. What was chosen for it stays chosen.
  await limit(20_000);
  await begin(csvFile(`id,name\n${lines.join("\n")}\n`), "replace");
  await dialog.getByRole("progressbar").waitFor();
  for (let times = 0; times < 3; times++) await page.keyboard.press("Escape");
  await press(dialog, "Stop");
  await dialog.getByText("Stopped. Rows that had arrived are stored.").waitFor();
  assert.equal(await dialog.getByLabel("If an id is taken").inputValue(), "replace");
  await limit(-1);
  await press(dialog, "Cancel");
});
