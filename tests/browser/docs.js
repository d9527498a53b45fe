// Uses the page at /docs in Chromium as a person would.

"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { chromium } = require("playwright-core");

const { PLANTS_URL, PLANTS_TOKEN } = process.env;

const PHONE = { width: 390, height: 844 };

// The generous deadline of a step, which only ends a test that would hang.
const TIMEOUT_MS = 120_000;

async function main() {
  const executablePath = execFileSync("which", ["chromium"], { encoding: "utf8" }).trim();
  // As root, Chromium starts only without its sandbox.
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    await use(await browser.newPage({ viewport: PHONE }));
  } finally {
    await browser.close();
  }
}

async function use(page) {
  page.setDefaultTimeout(TIMEOUT_MS);
  const complaints = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    if (!/^(data:|blob:)/.test(request.url()) && !request.url().startsWith(`${PLANTS_URL}/`)) {
      complaints.push(`a request to ${request.url()}`);
    }
  });

  await page.goto(`${PLANTS_URL}/docs/`);
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

  assert.deepEqual(complaints, [], "complaints of the browser");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
