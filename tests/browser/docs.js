// Uses the page at /docs in Chromium as a person would.

"use strict";

const { assert, axeFinds, inBrowser, press, screenshot, PLANTS_TOKEN, PLANTS_URL } = require("./harness.js");

const WIDTHS = [390, 768, 1280];
// One of each layout.
const AXE_WIDTHS = [390, 1280];
const HEIGHT = 844;

// Swagger UI's lists of examples and its body of a request, which have no labels. No style sheet mends that.
const UNLABELED = [".opblock-body :is(select, textarea)"];

inBrowser(async (browser) => {
  const person = await browser.person({ viewport: { width: WIDTHS[0], height: HEIGHT } });
  const page = await browser.tab(person, `${PLANTS_URL}/docs/`);
  assert.equal(page.url(), `${PLANTS_URL}/docs`);

  await signIn(page);
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
  const answer = remove.locator(".live-responses-table .response-col_status");
  assert.equal(await answer.last().innerText(), "204");
  assert.ok(!(await page.content()).includes(PLANTS_TOKEN), "the page shows the token");
  await assertEachFitsPhone(page);

  // One sign-in at / is enough for both pages in that tab, and only there.
  await page.getByRole("button", { name: "Signed in" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  await page.getByRole("link", { name: "Plant Store" }).click();
  await page.getByLabel("Token").fill(PLANTS_TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("No plants yet").waitFor();
  await press(page, "More");
  await page.getByRole("link", { name: "API", exact: true }).click();
  await page.getByRole("button", { name: "Signed in" }).waitFor();
  assert.ok(!(await page.content()).includes(PLANTS_TOKEN), "the page shows the token");
  assert.equal(page.url(), `${PLANTS_URL}/docs`);
  const other = await browser.tab(person, `${PLANTS_URL}/docs`);
  await other.getByRole("button", { name: "Sign in" }).waitFor();

  // Its answer is 401.
  browser.expect(/status of 401/);
  await looksGood(other);
});

async function signIn(page) {
  await page.getByRole("button", { name: "Sign in" }).click();
  const token = page.getByLabel("Token", { exact: true });
  assert.equal(await token.getAttribute("type"), "password", "the token is readable on the screen");
  await token.pressSequentially(PLANTS_TOKEN);
  await page.getByRole("dialog").getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Signed in" }).waitFor();
}

/** Whichever operation is open, nothing is wider than a phone. */
async function assertEachFitsPhone(page) {
  for (const operation of await page.locator(".opblock").all()) {
    const summary = operation.locator(".opblock-summary-control");
    // Without the pointer, for which each click would wait until nothing moves.
    const click = () => summary.dispatchEvent("click");
    if (!(await operation.evaluate((block) => block.classList.contains("is-open")))) await click();
    await operation.locator(".responses-table").last().waitFor();
    await assertFits(page, WIDTHS[0], `with ${await summary.innerText()} open`);
    await click();
  }
}

async function assertFits(page, width, state) {
  const scrollWidth = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(scrollWidth <= width, `the page is ${scrollWidth} px wide at ${width} px, ${state}`);
}

/** In both color schemes, axe finds nothing, and nothing is too wide: closed, signing in, after a request, with open schemas. */
async function looksGood(page) {
  await page.locator(".opblock").first().waitFor();
  await inEachLook(page, "closed");
  await page.getByRole("button", { name: "Sign in" }).click();
  await inEachLook(page, "sign-in");
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  const create = page.locator("#operations-Plants-createPlant");
  await create.locator(".opblock-summary-control").click();
  await create.locator(".try-out__btn").click();
  await create.locator(".execute").click();
  await create.locator(".live-responses-table").waitFor();
  await inEachLook(page, "open");
  await create.locator(".opblock-summary-control").click();
  const expand = page.locator(".models .json-schema-2020-12-expand-deep-button");
  // From the last to the first: an open schema has such buttons too, which come after its own.
  await expand.evaluateAll((buttons) => buttons.reverse().forEach((button) => button.click()));
  await page.locator(".models").getByText("requests", { exact: true }).first().waitFor();
  await inEachLook(page, "schemas");
}

async function inEachLook(page, part) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const state = `${part} in ${colorScheme}`;
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: HEIGHT });
      // While a color changes, its contrast is that of neither scheme.
      await page.waitForFunction(() => document.getAnimations().length === 0, null, { polling: 50 });
      if (AXE_WIDTHS.includes(width)) {
        const found = await axeFinds(page, colorScheme, UNLABELED);
        assert.equal(JSON.stringify(found, null, 1), "[]", `axe on ${state} at ${width} px`);
      }
      await assertFits(page, width, state);
      await screenshot(page, `docs-${state.replaceAll(" ", "-")}-${width}`);
    }
  }
}
