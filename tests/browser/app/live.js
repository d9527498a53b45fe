// Changes appear in every open tab, also after the server was away.

"use strict";

const {
  add, assert, eventually, ids, inBrowser, order, position, press, row, send, store, INSECURE_URL, PLANTS_URL,
} = require("../harness.js");

const TABS = 10;

// Longer than a tab without a stream pauses between two questions.
const HIDDEN_MS = 3000;

inBrowser(async (browser) => {
  await store(["1,Rosa,Rosaceae"]);
  const person = await browser.person();
  const page = await browser.signedIn({ person });
  const other = await browser.signedIn();

  // What one person does, another one sees without doing anything.
  await add(page, "2", "Salix");
  await row(other, "2").getByText("Salix").waitFor();
  await send("PATCH", "plants/2", '{"name":"Salix alba","tag":"Salicaceae"}');
  for (const each of [page, other]) await row(each, "2").getByText("Salix alba").waitFor();
  assert.match(await row(other, "2").getAttribute("class"), /fresh/);
  await row(other, "2").getByRole("button", { name: "Delete" }).click();
  await row(page, "2").waitFor({ state: "detached" });
  await page.getByText("1 plant", { exact: true }).waitFor();

  // Without a secure connection, the page cannot share streams between tabs. It works nevertheless.
  const insecure = await browser.signedIn({ url: INSECURE_URL.href });
  assert.equal(await insecure.evaluate(() => isSecureContext), false);
  await send("PUT", "plants/2", '{"name":"Ulmus"}');
  for (const each of [page, insecure]) await row(each, "2").getByText("Ulmus").waitFor();
  // Each step reaches the other tab before the next one. Otherwise this test takes the first deletion for the last, and
  // cancels the request of the last by closing its tab.
  await row(insecure, "2").getByRole("button", { name: "Delete" }).click();
  await row(page, "2").waitFor({ state: "detached" });
  await insecure.getByRole("button", { name: "Undo" }).click();
  await row(page, "2").waitFor();
  await row(insecure, "2").getByRole("button", { name: "Delete" }).click();
  await row(page, "2").waitFor({ state: "detached" });
  await insecure.close();

  // More tabs of one person than the browser opens connections: each one loads, follows, and can write.
  const tabs = [page];
  while (tabs.length < TABS) tabs.push(await browser.signedIn({ person }));
  await send("PUT", "plants/3", '{"name":"Acer"}');
  for (const tab of tabs) await row(tab, "3").waitFor();
  for (const [index, tab] of tabs.entries()) await add(tab, String(100 + index), `Of tab ${index}`);
  const all = ["1", "3", ...tabs.map((_, index) => String(100 + index))];
  for (const tab of [...tabs, other]) await eventually(() => ids(tab), all, "every tab has all plants");
  for (const tab of tabs.slice(1)) await tab.close();

  // A hidden tab does not follow, and comes up to date when it is shown again.
  const hide = (isHidden) => other.evaluate((isHidden) => {
    Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
  await other.clock.install();
  const ended = other.waitForEvent("requestfailed", (request) => request.url().includes("/events?after="));
  await hide(true);
  await ended;
  const asked = [];
  const note = (request) => asked.push(request.url());
  other.on("request", note);
  await send("DELETE", "plants/3");
  await row(page, "3").waitFor({ state: "detached" });
  await other.clock.runFor(HIDDEN_MS);
  assert.deepEqual(asked, [], "a hidden tab follows");
  other.off("request", note);
  await hide(false);
  await row(other, "3").waitFor({ state: "detached" });

  // The server goes away under open pages, and comes back. What has happened before is on the screen.
  browser.expect(/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|ERR_SOCKET/);
  const { host } = new URL(PLANTS_URL);
  for (let round = 1; round <= 2; round++) {
    await order("stop");
    await page.getByRole("alert").getByText("No connection to the server").waitFor();
    // Typed and saved while there is no server.
    await add(page, String(200 + round), "Typed without a server");
    await order(`start ${host}`);
    await send("PUT", `plants/${300 + round}`, '{"name":"Of someone else"}');
    for (const each of [page, other]) {
      await row(each, String(200 + round)).waitFor();
      await row(each, String(300 + round)).waitFor();
      await each.getByText("No connection to the server").waitFor({ state: "detached" });
    }
  }

  // A position stays exact for as long as nobody adds or deletes a plant before the page.
  await store(Array.from({ length: 300 }, (_, index) => `${10_000 + index},Plant,Common`));
  await row(page, "10000").waitFor();
  const first = (await ids(page)).indexOf("10000");
  const total = first + 300;
  const says = (text) => eventually(() => position(page), text);
  await says(`1–100 of ${total} plants`);
  await press(page, "Next");
  await says(`101–200 of ${total} plants`);
  await send("PUT", "plants/10000", '{"name":"Changed before the page","tag":"Common"}');
  await send("PUT", "plants/20000", '{"name":"After the page"}');
  await says(`101–200 of ${total + 1} plants`);
  await send("DELETE", "plants/10001");
  await says(`about 100–199 of ${total} plants`);
  await page.reload();
  await says(`about 100–199 of ${total} plants`);
  await press(page, "Next");
  await says(`about 200–299 of ${total} plants`);
  await press(page, "Next");
  await says(`300–${total} of ${total} plants`);
  await press(page, "First");
  await says(`1–100 of ${total} plants`);

  // Among the plants with a tag, a change before the page may be one of position.
  await row(page, "10002").getByRole("button", { name: "Common" }).click();
  await press(page, "Next");
  await says("101–200 of 299 plants with the tag “Common”");
  await send("PUT", "plants/10002", '{"name":"Without the tag"}');
  await says("about 101–200 of 298 plants with the tag “Common”");
});
