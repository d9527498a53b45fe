// Takes the picture that the README shows: real plants, on a desk.

"use strict";

const { readFileSync } = require("node:fs");
const path = require("node:path");
const { assert, eventually, inBrowser, order, screenshot, send } = require("./harness.js");

inBrowser(async (browser) => {
  const plants = readFileSync(path.join(__dirname, "../data/plants.csv"), "utf8");
  const { text } = await send("POST", "plants/import", plants, "text/csv");
  assert.match(text, /"failed":0,/);
  const token = await order("create-token anna write");
  const page = await browser.signedIn({ token, person: await browser.person({ colorScheme: "light" }) });
  await page.getByRole("table").waitFor();
  await eventually(() => page.locator(".fresh").count(), 0, "plants that are marked as new");
  await screenshot(page, "plants");
});
