// Imports and exports files: what is in a file before it is sent, progress, failed rows, a drop, a stop, an export of a search,
// and an export that is cut off.

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
  const choose = async (file) => {
    await page.getByRole("button", { name: "Import" }).click();
    await dialog.locator("input[type=file]").setInputFiles(file);
  };
  const begin = async (file, onConflict) => {
    await choose(file);
    if (onConflict) await dialog.getByLabel("If an id is taken").selectOption(onConflict);
    await importButton.click();
  };
  const importButton = dialog.getByRole("button", { name: /^Import [\d,]+ plants?$/ });
  const close = () => dialog.getByRole("button", { name: "Close" }).click();
  const cancel = () => dialog.getByRole("button", { name: "Cancel" }).click();
  const another = () => dialog.getByRole("button", { name: "Choose another file" }).click();
  const firstRows = () => dialog.locator(".preview tbody tr").evaluateAll((rows) => {
    return rows.map((row) => [...row.cells].map((cell) => cell.textContent));
  });
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
  const requests = [];
  page.on("request", (request) => requests.push(`${request.method()} ${new URL(request.url()).pathname}`));
  const imports = () => requests.filter((request) => request === "POST /plants/import").length;
  await choose(csvFile(`id,name,tag\n${lines.join("\n")}\n`));
  await dialog.getByText("plants.csv").waitFor();
  await dialog.getByText("100,000 rows, of which the first 5 are:").waitFor();
  assert.deepEqual((await firstRows()).map(([id]) => id), ["1", "2", "3", "4", "5"]);
  assert.equal(imports(), 0, "a file was sent before a person has seen what is in it");
  await dialog.getByRole("button", { name: "Import 100,000 plants" }).click();
  await dialog.getByText("Failed rows: the first 1,000").waitFor();
  await limit(-1);
  const progress = await page.evaluate(() => [...window.seen].filter((value) => value > 0 && value < 1));
  assert.ok(progress.length >= 3, `the progress was ${progress}`);
  assert.deepEqual(await outcomes(), ["added 98,000", "failed 2,000"]);
  assert.equal(imports(), 1);
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
  await dialog.getByText("dropped.ndjson").waitFor();
  await eventually(firstRows, [["-9223372036854775808", "Dropped", ""], ["-1", "", ""]]);
  await importButton.click();
  await dialog.getByText("Failed rows").first().waitFor();
  assert.deepEqual(await outcomes(), ["added 1", "failed 1"]);
  await close();
  await row(page, "-9223372036854775808").getByText("Dropped").waitFor();

  // What is in a file, as it stands there: quotes, line ends, the order of the columns, and ids beyond 2^53.
  const tricky = 'tag,name,id\r\n"a ""b""","Acer,\ncampestre",9007199254740993\r\n\r\n,"Rosa",-1';
  const elements = '[{"name":"[\\"},{","id":9223372036854775807,"tag":null}, {"id":2,"name":"Salix","tag":"S"}\n,3]';
  for (const [text, count, rows] of [
    [tricky, "2 rows", [["9007199254740993", "Acer,\ncampestre", 'a "b"'], ["-1", "Rosa", ""]]],
    [`\ufeff${tricky}`, "2 rows", [["9007199254740993", "Acer,\ncampestre", 'a "b"'], ["-1", "Rosa", ""]]],
    [elements, "3 rows", [["9223372036854775807", '["},{', ""], ["2", "Salix", "S"], ["", "", ""]]],
    ['\n{"id":1,"name":"A"}\n\n{"id":2,"name":"B"}', "2 rows", [["1", "A", ""], ["2", "B", ""]]],
    ["id,name\n1,Rosa\n", "1 row", [["1", "Rosa", ""]]],
  ]) {
    await choose(csvFile(text));
    await dialog.getByText(count, { exact: true }).waitFor();
    assert.deepEqual(await firstRows(), rows);
    // What will happen with ids that exist.
    for (const [choice, consequence] of [["skip", "left out"], ["replace", "overwrite"], ["error", "The report lists"]]) {
      await dialog.getByLabel("If an id is taken").selectOption(choice);
      await dialog.getByText(consequence).last().waitFor();
    }
    await cancel();
  }

  // A big file is counted part by part. Its first rows are there before, and another file ends the counting.
  await page.evaluate(() => {
    const { stream } = Blob.prototype;
    const { promise: rest, resolve: sendRest } = Promise.withResolvers();
    Blob.prototype.stream = function () {
      Blob.prototype.stream = stream;
      const half = this.size / 2;
      const parts = [this.slice(0, half).bytes(), rest.then(() => this.slice(half).bytes())];
      const pull = async (controller) => (parts.length ? controller.enqueue(await parts.shift()) : controller.close());
      return new ReadableStream({ pull });
    };
    window.sendRest = sendRest;
  });
  await choose(csvFile("id,name\n1,Rosa\n2,Acer campestre\n"));
  await dialog.getByText("Counting … 1 row so far").waitFor();
  assert.equal(await dialog.getByRole("progressbar").evaluate((progress) => Math.round(progress.value * 10)), 5);
  assert.deepEqual(await firstRows(), [["1", "Rosa", ""]]);
  assert.equal(await importButton.count(), 0);
  await another();
  await dialog.locator("input[type=file]").setInputFiles(csvFile("id,name\n5,Salix\n"));
  await dialog.getByText("1 row", { exact: true }).waitFor();
  await page.evaluate(() => window.sendRest());
  await eventually(firstRows, [["5", "Salix", ""]]);
  await cancel();

  // Files without plants. Nothing is sent, and another file can be chosen.
  const before = imports();
  await page.getByRole("button", { name: "Import" }).click();
  for (const [content, complaint] of [
    ["", "This file is empty."],
    ["a letter to no one\n", "The first line of a CSV file names its columns"],
    ["id,tag\n1,Rosaceae\n", "In this file, name is missing."],
    ["id,name,id\n", "In this file, id is there twice."],
    ["id,name,tag\n", "There are no plants in this file."],
    ["[ ]", "There are no plants in this file."],
    ["\n\n", "There are no plants in this file."],
    [Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0]), "This file is not a text in UTF-8."],
    [Buffer.from("\ufeffid,name\n1,Rosa\n", "utf16le"), "This file is not a text in UTF-8."],
  ]) {
    await dialog.locator("input[type=file]").setInputFiles(csvFile(content));
    await dialog.getByRole("alert").getByText(complaint).waitFor();
    assert.equal(await importButton.count(), 0, `${content} can be imported`);
    await another();
  }
  await cancel();
  assert.equal(imports(), before);

  // A proxy answers with a page of its own.
  await page.route(/import/, (route) => route.fulfill({ status: 200, body: "<h1>Sign in to the network</h1>" }));
  await begin(csvFile("id,name\n1,Rosa\n"));
  await dialog.getByRole("alert").getByText("The answer 200 is not from a plant store.").waitFor();
  await cancel();
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
  await cancel();

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
  await cancel();
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
  await eventually(() => status(page), "Exported 98,003 plants to plants.csv.");
  await page.getByRole("button", { name: "Show all tags" }).click();

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
