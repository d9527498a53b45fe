// The token ends, the network is away, the server is busy: the page says so and recovers by itself.

"use strict";

const { add, assert, eventually, inBrowser, order, row, send, status, store, PLANTS_TOKEN } = require("../harness.js");

inBrowser(async (browser) => {
  await store(["1,Rosa,Rosaceae"]);
  const token = await order("create-token visitor write");
  browser.expect(/status of 401/);
  const person = await browser.person();
  const page = await browser.signedIn({ person, token });
  const dialog = page.getByRole("dialog");

  // Without a network.
  browser.expect(/ERR_INTERNET_DISCONNECTED|ERR_NETWORK_CHANGED/);
  await person.setOffline(true);
  await row(page, "1").getByRole("button", { name: "Edit" }).click();
  await page.getByRole("alert").getByText("No connection to the server. Trying again …").waitFor();
  await person.setOffline(false);
  await dialog.getByLabel("Name").fill("Rosa canina");
  await page.getByText("No connection to the server").waitFor({ state: "detached" });

  // With a busy server, which does nothing and says when to come again.
  browser.expect(/status of (503|429)/);
  const busy = [
    [503, '{"error":5003,"message":"the server has too much to do"}'],
    [429, '{"error":2004,"message":"the token has made too many requests"}'],
    [502, "<h1>Bad gateway</h1>"],
  ];
  browser.expect(/status of 502/);
  const refused = [];
  await page.route(/plants\/1$/, (route) => {
    if (route.request().method() !== "PUT" || refused.length === busy.length) return route.continue();
    const [status, body] = busy[refused.push(route.request().headers()["if-match"]) - 1];
    return route.fulfill({ status, body, headers: { "Retry-After": "1" } });
  });
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").getByText("The server is busy. Trying again …").waitFor();
  await eventually(() => status(page), "Saved “Rosa canina” (1).");
  assert.equal(refused.length, busy.length);
  await page.unroute(/plants\/1$/);

  // A save that takes long can be stopped, by the Escape key too. The dialog stays with what was typed.
  browser.expect(/status of (404|503)/);
  await page.route(/plants\/9$/, (route) => route.fulfill({ status: 503, body: busy[0][1] }));
  await page.getByRole("button", { name: "Add plant" }).click();
  await dialog.getByLabel("Id").fill("9");
  await dialog.getByLabel("Name").fill("Ulmus");
  for (const stop of [() => page.keyboard.press("Escape"), () => dialog.getByRole("button", { name: "Cancel" }).click()]) {
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText("The server is busy. Trying again …").waitFor();
    await stop();
    await dialog.getByText("Stopped. The server may have stored the plant already.").waitFor();
    await dialog.getByText("The server is busy.").waitFor({ state: "detached" });
    assert.equal(await dialog.getByLabel("Name").inputValue(), "Ulmus");
  }
  await page.unroute(/plants\/9$/);
  await dialog.getByRole("button", { name: "Cancel" }).click();

  // A proxy answers with a page of its own, and then the plant is gone.
  let answers = 0;
  await page.route(/plants\/1$/, (route) => {
    if (answers++ === 0) return route.fulfill({ status: 200, body: "<h1>Sign in to the network</h1>" });
    return route.fulfill({ status: 404, body: '{"error":3002,"message":"there is no plant with id 1"}' });
  });
  await page.getByRole("link", { name: "Rosa canina" }).click();
  await eventually(() => status(page), "There is no plant 1.");
  await page.getByText("The server is busy.").waitFor({ state: "detached" });
  await page.unroute(/plants\/1$/);

  // An answer that is lost after the change was made: the change is not taken for one of someone else.
  browser.expect(/ERR_FAILED|status of (404|412)/);
  const lost = new Set();
  await page.route(/plants\/\d+$/, async (route) => {
    const method = route.request().method();
    const change = `${method} ${new URL(route.request().url()).pathname}`;
    if (method === "GET" || lost.has(change)) return route.continue();
    lost.add(change);
    await route.fetch();
    return route.abort();
  });
  await row(page, "1").getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Tag").fill("Roses");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await send("GET", "plants/1")).text, '{"id":1,"name":"Rosa canina","tag":"Roses"}');
  await add(page, "2", "Salix");
  await eventually(() => status(page), "Added “Salix” (2).");
  await row(page, "2").getByRole("button", { name: "Delete" }).click();
  await eventually(() => status(page), "Deleted “Salix” (2).");
  assert.deepEqual([...lost], ["PUT /plants/1", "PUT /plants/2", "DELETE /plants/2"]);

  // The token is revoked while the person types, in each of two tabs: in a new plant, and in one that was opened before.
  const other = await browser.signedIn({ token });
  await other.getByRole("link", { name: "Rosa canina" }).click();
  await other.getByRole("dialog").getByRole("button", { name: "Edit" }).click();
  await page.getByRole("button", { name: "Add plant" }).click();
  await dialog.getByLabel("Id").fill("5");
  await order("revoke-token visitor");
  for (const [each, name, id] of [[page, "Quercus robur", "5"], [other, "Rosa rugosa", "1"]]) {
    await each.getByRole("alert").getByText("The token has ended").waitFor();
    assert.deepEqual(await each.evaluate(() => Object.values(sessionStorage)), []);
    await each.getByLabel("Token").fill(PLANTS_TOKEN);
    await each.getByRole("button", { name: "Sign in" }).click();
    await each.getByLabel("Token").waitFor({ state: "detached" });
    await each.getByRole("dialog").getByLabel("Name").fill(name);
    assert.equal(await each.getByRole("dialog").getByLabel("Id").inputValue(), id);
    await each.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await row(each, id).getByText(name).waitFor();
  }
});
