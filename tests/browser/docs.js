// Uses the page at /docs in Chromium as a person would.

"use strict";

const { assert, inBrowser, PLANTS_TOKEN, PLANTS_URL } = require("./harness.js");

const PHONE = { width: 390, height: 844 };

inBrowser(async (browser) => {
  const person = await browser.person({ viewport: PHONE });
  const page = await browser.tab(person, `${PLANTS_URL}/docs/`);
  assert.equal(page.url(), `${PLANTS_URL}/docs`);

  await page.click(".auth-wrapper .authorize");
  const token = page.locator(".auth-container input");
  assert.equal(await token.getAttribute("type"), "password", "the token is readable on the screen");
  await token.pressSequentially(PLANTS_TOKEN);
  await page.click(".auth-btn-wrapper .authorize");
  await page.click(".auth-btn-wrapper .btn-done");

  const remove = page.locator("#operations-Plants-deletePlant");
  await remove.locator(".opblock-summary-control").click();
  assert.equal(await remove.locator(".execute").count(), 0, "one click sends a DELETE");
  await remove.locator(".try-out__btn").click();
  const id = remove.locator("tr[data-param-name=id] input");
  assert.equal(await id.inputValue(), "", "an id is filled in");
  await remove.locator(".execute").click();
  await remove.locator(".validation-errors").waitFor();
  await id.fill("1");
  await remove.locator(".execute").click();
  assert.equal(await remove.locator(".live-responses-table .response-col_status").last().innerText(), "204");

  for (const operation of await page.locator(".opblock").all()) {
    await operation.evaluate((block) => {
      if (!block.classList.contains("is-open")) block.querySelector(".opblock-summary-control").click();
    });
    // Polls by time: a browser without a screen may draw no frames.
    const hasOpened = (block) => block.querySelector(".responses-table") !== null;
    await page.waitForFunction(hasOpened, await operation.elementHandle(), { polling: 50 });
  }
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= PHONE.width, `the page is ${width} px wide on a phone of ${PHONE.width} px`);
});
