// The webhooks of the server, as a person sees them who may write.

"use strict";

const http = require("node:http");
const { assert, eventually, inBrowser, order, press, row, signIn, store } = require("../harness.js");

const SHOP = { name: "shop", origin: "https://shop.example", kinds: ["created", "updated", "deleted"], plants: true };
const AT = "2026-11-29T11:30:00.123Z";
const EVENTS = "created, updated, deleted, with plants";

inBrowser(async (browser) => {
  browser.expect(/status of 500/);
  await store(["1,Rosa canina,Rosaceae"]);
  const reader = await order("create-token carl read");
  const page = await browser.signedIn();
  const dialog = page.getByRole("dialog", { name: "Webhooks" });
  /** The name of each webhook, and what is said about it. */
  const told = () => dialog.getByRole("listitem").evaluateAll((all) => all.map((webhook) => {
    const terms = [...webhook.querySelectorAll("dt")].map((term) => [term.textContent, term.nextSibling.textContent.trim()]);
    return { name: webhook.querySelector("h3").textContent, ...Object.fromEntries(terms) };
  }));

  // A server without webhooks.
  await press(page, "Webhooks");
  await dialog.getByText("There are no webhooks.").waitFor();
  await dialog.getByText("Webhooks are managed with plantd webhook on the server's machine.").waitFor();
  await press(dialog, "Close");
  await dialog.waitFor({ state: "detached" });

  // One whose receiver fails at first. The rest of its URL is a secret.
  let answer = 500;
  const receiver = http.createServer((_request, response) => response.writeHead(answer).end());
  await new Promise((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${receiver.address().port}`;
  await order(`create-webhook real ${origin}/secret`);
  await press(page, "Webhooks");
  const becomes = (state) => eventually(async () => {
    await press(dialog, "Refresh");
    return (await told()).map(({ name, To, State }) => [name, To, State]);
  }, [["real", origin, state]]);
  await becomes("Failing: the last attempt failed, and is repeated");
  assert.match((await told())[0]["Last error"], /answered 500/);
  answer = 204;
  await becomes("Sending");
  assert.doesNotMatch(await dialog.textContent(), /secret/);
  await press(dialog, "Close");
  await dialog.waitFor({ state: "detached" });

  // One in each state.
  const webhooks = [
    { ...SHOP, state: "sending", last_success: AT, lag_seconds: 0 },
    {
      ...SHOP, name: "search", plants: false, kinds: ["deleted"], state: "failing", last_success: AT, lag_seconds: 7250,
      last_error: { at: AT, message: "the receiver answered 500 Internal Server Error" },
    },
    { ...SHOP, name: "new", state: "paused" },
    { ...SHOP, name: "old", state: "gone", lag_seconds: 86_400 },
    { ...SHOP, name: "later", state: "of a later version", lag_seconds: 59 },
  ];
  const answerWith = async (options) => {
    await page.unroute(/\/webhooks$/);
    await page.route(/\/webhooks$/, (route) => route.fulfill(options));
  };
  await answerWith({ json: { webhooks } });
  await press(page, "Webhooks");
  await eventually(() => dialog.getByRole("listitem").count(), webhooks.length);
  const time = dialog.getByRole("time").first();
  assert.equal(await time.getAttribute("datetime"), AT);
  const at = await time.textContent();
  assert.match(at, /^Nov \d\d, 2026, \d\d:\d\d$/);
  const to = { To: SHOP.origin, Sends: EVENTS };
  assert.deepEqual(await told(), [
    { name: "shop", State: "Sending", ...to, "Last success": at, Lag: "0 seconds" },
    {
      name: "search", State: "Failing: the last attempt failed, and is repeated", To: SHOP.origin, Sends: "deleted",
      "Last success": at, Lag: "2 hours", "Last error": `The receiver answered 500 Internal Server Error. ${at}`,
    },
    { name: "new", State: "Paused", ...to, "Last success": "none" },
    { name: "old", State: "Paused, because the receiver answered 410 (Gone)", ...to, "Last success": "none", Lag: "1 day" },
    { name: "later", State: "of a later version", ...to, "Last success": "none", Lag: "59 seconds" },
  ]);

  // "Refresh" reads them again. What was read stays when that fails.
  await answerWith({ status: 500, json: { error: 5001, message: "an internal error" } });
  await press(dialog, "Refresh");
  await dialog.getByText("Trying again").waitFor();
  assert.equal((await told()).length, webhooks.length);
  await answerWith({ json: { webhooks: webhooks.slice(0, 1) } });
  await eventually(() => dialog.getByRole("listitem").count(), 1);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });

  // A token that may only read is offered none.
  await press(page, "Sign out");
  await signIn(page, reader);
  await row(page, "1").waitFor();
  assert.equal(await page.getByRole("button", { name: "Webhooks" }).count(), 0);
});
