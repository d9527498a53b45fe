// Adds, edits and deletes plants by hand, with ids at both ends, and names that look like HTML.

"use strict";

const {
  add, assert, eventually, ids, inBrowser, order, press, row, send, signIn, status, LARGEST, PLANTS_TOKEN, SMALLEST,
} = require("../harness.js");

const NOT_AN_ID = `An id is a whole number from ${SMALLEST} to ${LARGEST}.`;

inBrowser(async (browser) => {
  const person = await browser.person();
  const page = await browser.tab(person);
  const dialog = page.getByRole("dialog");

  // A wrong token is refused, and the right one is kept in this tab alone.
  browser.expect(/status of 401/);
  assert.equal(await page.getByLabel("Token").getAttribute("type"), "password");
  await page.getByLabel("Token").fill(`${PLANTS_TOKEN}x`);
  await press(page, "Sign in");
  await page.getByRole("alert").getByText("token").waitFor();
  await page.getByLabel("Token").fill("“a token”");
  await press(page, "Sign in");
  await page.getByRole("alert").getByText("A token consists of visible ASCII characters").waitFor();
  for (let times = 0; times < 3; times++) await page.keyboard.press("Escape");
  await page.getByLabel("Token").waitFor();
  await signIn(page);
  await page.getByText("No plants yet").waitFor();
  assert.deepEqual(await person.cookies(), []);
  const kept = await page.evaluate(() => [Object.values(sessionStorage), Object.values(localStorage), location.href]);
  assert.deepEqual(kept.slice(0, 2), [[PLANTS_TOKEN], []]);
  assert.ok(!kept[2].includes(PLANTS_TOKEN), "the address shows the token");
  assert.ok(!(await page.content()).includes(PLANTS_TOKEN), "the page shows the token");

  // Adds plants. A mistake is explained, and what was typed stays.
  browser.expect(/status of (400|412)/);
  const blank = "must hold a character that is not white space.";
  for (const [id, name, tag, wrong, complaint] of [
    ["rose", "Rosa", "", ["Id"], NOT_AN_ID],
    ["", "Rosa", "", ["Id"], "Type an id."],
    ["9223372036854775808", "Rosa", "", ["Id"], NOT_AN_ID],
    ["1", "", "", ["Name"], "Type a name."],
    ["", "", "", ["Id", "Name"], "Type an id."],
    ["1", " ", "", ["Name"], `Name ${blank}`],
    ["1", "x".repeat(256), "", ["Name"], "Name must have 1 to 255 characters."],
    ["1", "Rosa", " ", ["Tag"], `Tag ${blank}`],
    ["1", " ", "x".repeat(256), ["Name", "Tag"], `Name ${blank}`],
  ]) {
    await add(page, id, name, tag);
    await dialog.getByRole("alert").getByText(complaint).waitFor();
    for (const label of ["Id", "Name", "Tag"]) {
      const isWrong = await dialog.getByLabel(label).getAttribute("aria-invalid");
      assert.equal(isWrong, String(wrong.includes(label)), `${label} of ${[id, name, tag]}`);
    }
    // The first wrong field has the focus, and the message describes it.
    const first = dialog.getByLabel(wrong[0]);
    await eventually(() => first.evaluate((field) => field === document.activeElement), true, `the focus on ${wrong[0]}`);
    const described = await first.evaluate((field) => {
      return field.getAttribute("aria-describedby").split(" ").map((id) => document.getElementById(id).textContent).join(" ");
    });
    assert.ok(described.includes(complaint), `${wrong[0]} is described by ${described}`);
    assert.equal(await dialog.getByLabel("Id").inputValue(), id);
    await dialog.getByRole("button", { name: "Cancel" }).click();
  }

  // The Escape key and a click outside ask before they discard what was typed, and close at once if nothing was.
  const escape = () => page.keyboard.press("Escape");
  const clickOutside = () => page.mouse.click(5, 5);
  for (const leave of [escape, clickOutside]) {
    await press(page, "Add plant");
    await dialog.getByLabel("Id").waitFor();
    await leave();
    await dialog.waitFor({ state: "detached" });
    await press(page, "Add plant");
    await dialog.getByLabel("Name").fill("Rosa");
    await leave();
    await dialog.getByRole("alert").getByText("Discard what you have typed?").waitFor();
    await dialog.getByRole("button", { name: "Keep editing" }).click();
    assert.equal(await dialog.getByLabel("Name").inputValue(), "Rosa");
    for (let times = 0; times < 5; times++) await escape();
    assert.equal(await dialog.getByLabel("Name").inputValue(), "Rosa");
    await dialog.getByRole("button", { name: "Discard", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
  }
  // A selection of text that ends outside is no click there.
  await press(page, "Add plant");
  const field = await dialog.getByLabel("Id").boundingBox();
  await page.mouse.move(field.x + 5, field.y + 5);
  await page.mouse.down();
  await page.mouse.move(5, 5);
  await page.mouse.up();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  const plants = [
    [SMALLEST, "Ulmus minor", ""],
    ["1", "Rosa canina", "Rosaceae"],
    ["9007199254740993", "Salix 🌱 植物", "Salicaceae"],
    [LARGEST, '<img src="x" onerror="alert(1)"><b>bold</b> & &amp;', "<i>tag</i>"],
  ];
  for (const [id, name, tag] of plants) {
    await add(page, id, name, tag);
    await eventually(() => status(page), `Added “${name}” (${id}).`);
  }
  await add(page, " +007 ", "Acer");
  await row(page, "7").waitFor();
  await add(page, "1", "Rosa rugosa");
  await dialog.getByRole("alert").getByText("A plant with id 1 exists already; choose another id.").waitFor();
  assert.equal(await dialog.getByLabel("Id").getAttribute("aria-invalid"), "true");
  await dialog.getByLabel("Id").fill("2");
  await dialog.getByRole("button", { name: "Save" }).click();
  await eventually(() => ids(page), [SMALLEST, "1", "2", "7", "9007199254740993", LARGEST]);
  for (const [id, name, tag] of plants) {
    const cells = await row(page, id).getByRole("cell").allTextContents();
    assert.deepEqual(cells.slice(0, 3), [id, name, tag], "a row shows id, name and tag as they are");
    const stored = `{"id":${id},"name":${JSON.stringify(name)}${tag && `,"tag":${JSON.stringify(tag)}`}}`;
    assert.equal((await send("GET", `plants/${id}`)).text, stored);
  }
  assert.equal(await page.locator("td img, td b, td i").count(), 0, "a name became HTML");

  // Edits and deletes at both ends.
  for (const id of [SMALLEST, LARGEST]) {
    await row(page, id).getByRole("button", { name: "Edit" }).click();
    assert.equal(await dialog.getByLabel("Id").inputValue(), id);
    await dialog.getByLabel("Name").fill(`Edited ${id}`);
    await dialog.getByLabel("Tag").fill("");
    await dialog.getByRole("button", { name: "Save" }).click();
    await eventually(() => status(page), `Saved “Edited ${id}” (${id}).`);
    await row(page, id).getByText(`Edited ${id}`).waitFor();
    assert.equal((await send("GET", `plants/${id}`)).text, `{"id":${id},"name":"Edited ${id}"}`);
    await row(page, id).getByRole("button", { name: "Delete" }).click();
    await eventually(() => status(page), `Deleted “Edited ${id}” (${id}).`);
    await row(page, id).waitFor({ state: "detached" });
    assert.equal((await send("GET", `plants/${id}`)).status, 404);
  }

  // Undo brings back one after the other, the last one first.
  await press(page, "Undo");
  await row(page, LARGEST).waitFor();
  await press(page, "Undo");
  await row(page, SMALLEST).waitFor();
  assert.equal((await send("GET", `plants/${SMALLEST}`)).text, `{"id":${SMALLEST},"name":"Edited ${SMALLEST}"}`);
  assert.equal(await page.getByRole("button", { name: "Undo" }).count(), 0);

  // A double click deletes one plant, although the next one moves under the pointer.
  await row(page, "7").getByRole("button", { name: "Delete" }).dblclick();
  await row(page, "7").waitFor({ state: "detached" });
  assert.equal((await send("GET", "plants/9007199254740993")).status, 200);
  await press(page, "Undo");
  await row(page, "7").waitFor();
  assert.equal(await page.getByRole("button", { name: "Undo" }).count(), 0);

  // An id that someone else has taken in the meantime cannot come back.
  await row(page, "1").getByRole("button", { name: "Delete" }).click();
  await row(page, "1").waitFor({ state: "detached" });
  await send("PUT", "plants/1", '{"name":"Of someone else"}');
  await press(page, "Undo");
  await eventually(() => status(page), "Someone else has added plant 1 in the meantime, so nothing was undone.");
  assert.equal((await send("GET", "plants/1")).text, '{"id":1,"name":"Of someone else"}');

  // From the view of one plant.
  await row(page, "2").getByRole("link", { name: "Rosa rugosa" }).click();
  await dialog.getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Tag").fill("Rosaceae");
  await dialog.getByRole("button", { name: "Save" }).click();
  await row(page, "2").getByText("Rosaceae").waitFor();
  await row(page, "2").getByRole("link", { name: "Rosa rugosa" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await row(page, "2").waitFor({ state: "detached" });

  // A token that may only read sees the plants, and nothing that would change them.
  const reader = await order("create-token reader read");
  await press(page, "Sign out");
  await page.getByLabel("Token").waitFor();
  assert.deepEqual(await page.evaluate(() => Object.values(sessionStorage)), []);
  assert.equal(await page.getByRole("row").count(), 0, "the plants stay after signing out");
  // A token for the metrics reads no plants.
  const scraper = await order("create-token scraper metrics");
  await eventually(async () => {
    await page.getByLabel("Token").fill(scraper);
    await page.getByRole("button", { name: "Sign in" }).click();
    return dialog.getByRole("alert").innerText();
  }, "A token with the scope metrics reads no plants; use one with the scope read or write.");
  await signIn(page, reader);
  await row(page, "7").waitFor();
  await page.getByText("read-only", { exact: true }).waitFor();
  for (const name of ["Add plant", "Import", "Edit", "Delete"]) {
    assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, `a reader is offered ${name}`);
  }
  await row(page, "7").getByRole("link", { name: "Acer" }).click();
  await dialog.getByRole("button", { name: "Close" }).waitFor();
  assert.deepEqual(await dialog.getByRole("button").allTextContents(), ["History", "Close"]);
});
