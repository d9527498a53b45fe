// Two people change a plant. Its history tells who did what, and brings back what the plant was.

"use strict";

const {
  assert, axeFinds, eventually, ids, inBrowser, jump, order, press, row, send, signIn, status, store, PLANTS_URL,
} = require("../harness.js");

const PHONE = { width: 390, height: 800 };

// More than one answer of the server has.
const MANY = 60;

inBrowser(async (browser) => {
  browser.expect(/status of (404|412)/);
  await store(["8,Salix alba,Salicaceae"]);
  const [anna, ben, reader] = [
    await order("create-token anna write"), await order("create-token ben write"), await order("create-token carl read"),
  ];
  const page = await browser.signedIn({ token: anna });
  const dialog = page.getByRole("dialog");
  const changes = dialog.getByRole("listitem");
  const restore = (change) => change.getByRole("button", { name: "Restore this version" }).click();
  const as = async (token, method, path, body) => {
    const headers = { Authorization: `Bearer ${token}`, ...(body && { "Content-Type": "application/json" }) };
    const answer = await fetch(`${PLANTS_URL}/${path}`, { method, headers, body });
    assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  };
  const isStored = (id, text) => eventually(async () => (await send("GET", `plants/${id}`)).text, text, "what is stored");
  /** What each change says, from the newest to the oldest: who did what, and the plant with the marks of what differs. */
  const told = () => changes.evaluateAll((all) => all.map((change) => {
    const [what, plant] = change.querySelectorAll("p");
    const marked = plant.innerHTML.replace(/<!--.*?-->|<\/?span[^>]*>/g, "").replace(/\s+/g, " ").trim();
    return [what.textContent.split(",")[0], marked];
  }));

  // The server knows new tokens within two seconds, and Anna's page has been let in.
  await eventually(() => fetch(`${PLANTS_URL}/token`, { headers: { Authorization: `Bearer ${ben}` } }).then(({ ok }) => ok), true);
  await as(anna, "PUT", "plants/7", '{"name":"Rosa canina","tag":"Rosaceae"}');
  await as(ben, "PUT", "plants/7", '{"name":"Rosa canina L.","tag":"Roses"}');
  await as(anna, "PUT", "plants/7", '{"name":"Rosa rugosa L."}');
  await row(page, "7").getByRole("link", { name: "Rosa rugosa L." }).click();
  await press(dialog, "History");
  await page.getByRole("dialog", { name: "History of plant 7" }).waitFor();
  await eventually(told, [
    ["Changed by anna", "Rosa<del> canina</del><ins> rugosa</ins> L. <del>Roses</del>"],
    ["Changed by ben", "Rosa canina<ins> L.</ins> <del>Rosaceae</del><ins>Roses</ins>"],
    ["Added by anna", "Rosa canina Rosaceae"],
  ]);
  const time = changes.first().getByRole("time");
  const age = Date.now() - Date.parse(await time.getAttribute("datetime"));
  assert.ok(age >= 0 && age < 600_000, `the change is ${age} ms old`);
  assert.match(await time.textContent(), /^[A-Z][a-z]{2} \d{1,2}, \d{4}, \d\d:\d\d$/);
  assert.equal(await changes.first().getByRole("button").count(), 0, "the current version can be restored");

  // The address leads to it. The Escape key closes it, and gives the focus back.
  assert.match(page.url(), /#history=7$/);
  await page.reload();
  await eventually(() => changes.count(), 3);
  await press(dialog, "Show the plant");
  await page.getByRole("dialog", { name: "Rosa rugosa L." }).waitFor();
  assert.match(page.url(), /#plant=7$/);
  await press(dialog, "History");
  await changes.first().waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.doesNotMatch(page.url(), /history/);
  await row(page, "7").getByRole("link").focus();
  await page.keyboard.press("Enter");
  await press(dialog, "History");
  await changes.first().waitFor();
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
  await eventually(focused, "Close");
  await page.keyboard.press("Enter");
  await eventually(focused, "Rosa rugosa L.");

  // Restores the first version, and undoes that.
  const openHistory = async (id) => {
    await row(page, id).getByRole("link").click();
    await press(dialog, "History");
    await changes.first().waitFor();
  };
  await openHistory("7");
  await restore(changes.last());
  await eventually(() => status(page), "Restored “Rosa canina” (7).");
  await isStored("7", '{"id":7,"name":"Rosa canina","tag":"Rosaceae"}');
  await row(page, "7").getByText("Rosa canina").waitFor();
  await press(page, "Undo");
  await eventually(() => status(page), "“Rosa rugosa L.” (7) is back.");
  await isStored("7", '{"id":7,"name":"Rosa rugosa L."}');

  // An undo leaves alone what someone else has changed since.
  await openHistory("7");
  await restore(changes.last());
  await eventually(() => status(page), "Restored “Rosa canina” (7).");
  await as(ben, "PUT", "plants/7", '{"name":"Rosa gallica"}');
  await press(page, "Undo");
  await eventually(() => status(page), "Someone else has changed plant 7 in the meantime, so nothing was undone.");
  await isStored("7", '{"id":7,"name":"Rosa gallica"}');

  // What someone else has changed since the history was read is not overwritten without a question.
  await openHistory("7");
  await as(ben, "PUT", "plants/7", '{"name":"Rosa gallica L."}');
  await restore(changes.last());
  await dialog.getByText("Someone else has changed this plant").waitFor();
  await isStored("7", '{"id":7,"name":"Rosa gallica L."}');
  await press(dialog, "Overwrite with mine");
  await isStored("7", '{"id":7,"name":"Rosa canina","tag":"Rosaceae"}');
  await openHistory("7");
  await as(ben, "DELETE", "plants/7");
  await restore(changes.nth(1));
  await dialog.getByText("Someone else has deleted this plant.").waitFor();
  await press(dialog, "Cancel");
  await dialog.waitFor({ state: "detached" });
  await row(page, "7").waitFor({ state: "detached" });

  // The history of a deleted plant: by its address, after a jump to its id, and from the message about the deletion.
  await jump(page, "7");
  await page.getByText("There is no plant 7.").last().waitFor();
  await page.getByRole("listitem").filter({ hasText: "There is no plant 7." }).getByRole("button", { name: "History" }).click();
  await eventually(async () => (await told())[0], ["Deleted by ben", "<del>Rosa canina</del> <del>Rosaceae</del>"]);
  assert.equal(await dialog.getByRole("button", { name: "Show the plant" }).count(), 0, "a deleted plant can be shown");
  await restore(changes.last());
  await isStored("7", '{"id":7,"name":"Rosa canina","tag":"Rosaceae"}');
  await press(page, "Undo");
  await eventually(() => status(page), "“Rosa canina” (7) is deleted again.");
  assert.equal((await send("GET", "plants/7")).status, 404);
  await press(page, "First");
  await row(page, "8").getByRole("button", { name: "Delete" }).click();
  const deletion = page.getByRole("listitem").filter({ hasText: "Deleted “" });
  await deletion.getByRole("button", { name: "History" }).click();
  await page.getByRole("dialog", { name: "History of plant 8" }).waitFor();
  // Someone else adds another plant with its id.
  await eventually(() => changes.count(), 2);
  await as(ben, "PUT", "plants/8", '{"name":"Salix caprea"}');
  await restore(changes.last());
  await dialog.getByText("Someone else has changed this plant").waitFor();
  await press(dialog, "Take theirs");
  await press(dialog, "Cancel");
  await isStored("8", '{"id":8,"name":"Salix caprea"}');

  // A long history comes in parts, and a part goes on where the one before has ended.
  for (let version = 1; version <= MANY; version++) await as(ben, "PUT", "plants/9", `{"name":"Version ${version}"}`);
  await row(page, "9").getByText(`Version ${MANY}`).waitFor();
  await openHistory("9");
  await page.setViewportSize(PHONE);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await axeFinds(page, colorScheme), [], `axe in ${colorScheme}`);
  }
  const tooWide = () => page.evaluate(() => [document.scrollingElement, ...document.querySelectorAll("dialog, .scroll")]
    .filter((element) => element.scrollWidth > element.clientWidth).length);
  assert.equal(await tooWide(), 0, "a phone scrolls to the side");
  await page.setViewportSize({ width: 1280, height: 800 });
  while (await dialog.getByRole("button", { name: "Show older changes" }).isVisible()) {
    const shown = await changes.count();
    await press(dialog, "Show older changes");
    await eventually(async () => (await changes.count()) > shown, true, "whether there are older changes");
    await eventually(() => changes.nth(shown).evaluate((change) => change === document.activeElement), true, "the focus");
  }
  const all = Array.from({ length: MANY - 1 }, (_, index) => {
    return ["Changed by ben", `Version<del> ${MANY - 1 - index}</del><ins> ${MANY - index}</ins>`];
  });
  assert.deepEqual(await told(), [...all, ["Added by ben", "Version 1"]]);
  await press(dialog, "Close");

  // Older changes may be forgotten, and of an unknown id nothing is known.
  await page.route(/history/, async (route) => {
    const answer = await route.fetch();
    return route.fulfill({ response: answer, headers: { ...answer.headers(), "X-History-Complete": "false" } });
  });
  await openHistory("8");
  await dialog.getByText("Older changes are forgotten.").waitFor();
  await press(dialog, "Close");
  await page.unroute(/history/);
  const stranger = await page.context().newPage();
  await stranger.goto(`${PLANTS_URL}/#history=99`);

  // A token that may only read sees the history, and nothing that restores.
  await signIn(stranger, reader);
  await stranger.getByRole("alert").getByText("There is no plant with id 99.").waitFor();
  await press(stranger.getByRole("dialog"), "Close");
  await row(stranger, "8").getByRole("link").click();
  await press(stranger.getByRole("dialog"), "History");
  await eventually(() => stranger.getByRole("dialog").getByRole("listitem").count(), 3);
  assert.equal(await stranger.getByRole("button", { name: "Restore" }).count(), 0, "a reader is offered a restore");
  assert.deepEqual(await ids(stranger), ["8", "9"]);
});
