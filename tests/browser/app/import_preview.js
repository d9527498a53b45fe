// What is in a file before it is sent, and what stands in the report of an import that fails.

"use strict";

const { readFileSync } = require("node:fs");
const { assert, eventually, inBrowser, press } = require("../harness.js");
const { csvFile, openImport } = require("./import_steps.js");

inBrowser(async (browser) => {
  const page = await browser.signedIn();
  const { begin, choose, dialog, firstRows, importButton, outcomes, sent } = openImport(page);

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
    await press(dialog, "Cancel");
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
  await press(dialog, "Choose another file");
  await dialog.locator("input[type=file]").setInputFiles(csvFile("id,name\n5,Salix\n"));
  await dialog.getByText("1 row", { exact: true }).waitFor();
  await page.evaluate(() => window.sendRest());
  await eventually(firstRows, [["5", "Salix", ""]]);
  await press(dialog, "Cancel");

  // Files without plants. Nothing is sent, and another file can be chosen.
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
    await press(dialog, "Choose another file");
  }
  await press(dialog, "Cancel");
  assert.equal(sent(), 0);

  // A proxy answers with a page of its own.
  await page.route(/import/, (route) => route.fulfill({ status: 200, body: "<h1>Sign in to the network</h1>" }));
  await begin(csvFile("id,name\n1,Rosa\n"));
  await dialog.getByRole("alert").getByText("The answer 200 is not from a plant store.").waitFor();
  await press(dialog, "Cancel");
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
  await press(dialog, "Close");
  // The row has a quoted cell behind a semicolon, at which some programs split.
  await begin(csvFile('id,name\nx;"=1",f\n'));
  assert.match(await downloadFailed(), /,"x;'""=1"",f"\r\n$/);
  await press(dialog, "Close");
  await begin(csvFile('[{"id":"x"},{"id":"y"}]'));
  for (const line of (await downloadFailed()).trim().split("\r\n").slice(1)) assert.match(line, /^1,1004,.*,$/);
  await press(dialog, "Close");
  await begin(csvFile('\ufeff{"id":7777777,"name":"With a byte order mark"}\n'));
  await eventually(outcomes, ["added 1"]);
  await press(dialog, "Close");
});
