// Every state of the page, in light and dark: axe finds nothing, and nothing is wider than a phone, a tablet or a desk.

"use strict";

const {
  assert, axeFinds, eventually, inBrowser, order, press, row, screenshot, send, signIn, store,
} = require("../harness.js");

const PHONE = 390;
const WIDTHS = [PHONE, 768, 1280];
const HEIGHT = 800;

// Of the height of a phone, for what stands above the plants.
const TOOLBAR_MOST = 120;
// The least size of what a finger touches.
const TARGET_LEAST = 44;
// The least contrast between the border of a control and what is around it (WCAG 1.4.11).
const BORDER_CONTRAST_LEAST = 3;

const PLANTS = [
  "1,Rosa canina,Rosaceae",
  "2,Salix alba,Salicaceae",
  "3,Quercus robur,Fagaceae",
  "4,Fagus sylvatica,Fagaceae",
  "5,Bellis perennis,Asteraceae",
  "6,Betula pendula,Betulaceae",
  "7,Urtica dioica,Urticaceae",
  "8,Trifolium pratense,Fabaceae",
  "9,Ginkgo biloba,Ginkgoaceae",
  "10,Prunus avium,Rosaceae",
  "11,Acer campestre,Sapindaceae",
  "12,Taraxacum officinale,Asteraceae",
];

// Longer than the head of a phone.
const READER = "reader-of-the-herbarium-of-the-botanical-garden";

const WEBHOOKS = [
  {
    name: "shop", origin: "https://shop.example", kinds: ["created", "updated", "deleted"], plants: true, state: "sending",
    last_success: "2026-11-29T11:30:00.123Z", lag_seconds: 0,
  },
  {
    name: "w".repeat(64), origin: `https://${"host.".repeat(40)}example:8443`, kinds: ["deleted"], plants: false,
    state: "failing", lag_seconds: 40, last_error: { at: "2026-11-29T11:30:00.123Z", message: "M".repeat(255) },
  },
];

// The longest words that a store can hold.
const LONG = [`-9223372036854775808,${"W".repeat(255)},${"M".repeat(255)}`];

inBrowser(async (browser) => {
  browser.expect(/status of (400|401|412|503)|ERR_INTERNET_DISCONNECTED/);
  const reader = await order(`create-token ${READER} read`);
  for (const colorScheme of ["light", "dark"]) {
    await walk(browser, colorScheme, reader);
  }
});

/** However long the name of a token is, its scope is whole. */
async function isScopeWhole(page) {
  await page.setViewportSize({ width: PHONE, height: HEIGHT });
  const scope = page.getByText("read-only", { exact: true });
  const { right, isCut } = await scope.evaluate((element) => ({
    right: element.getBoundingClientRect().right,
    isCut: element.scrollWidth > element.clientWidth,
  }));
  assert.ok(right <= PHONE && !isCut, `the scope ends at ${right} px`);
  await page.setViewportSize({ width: 1280, height: HEIGHT });
}

/** The toolbar leaves the screen to the plants, and a finger finds what it touches. */
async function fitsAPhone(page, state) {
  const toolbarHeight = () => page.evaluate(() => document.querySelector(".toolbar")?.offsetHeight ?? 0);
  await eventually(async () => (await toolbarHeight()) <= TOOLBAR_MOST, true, `whether the toolbar of ${state} is low`);
  await eventually(() => page.evaluate(smallTargets, TARGET_LEAST), [], `too small for a finger in ${state}`);
}

/** In the page: what is too small for a finger. */
function smallTargets(least) {
  const ofPage = "main :is(button, input), .toasts button, :popover-open :is(button, input, a), .plants tbody tr";
  const ofDialog = 'dialog :is(button, summary, select, input:not([type="checkbox"], [type="radio"], [type="file"]))';
  const isSmall = (element) => {
    const { width, height } = element.getBoundingClientRect();
    return element.checkVisibility() && (Math.round(width) < least || Math.round(height) < least);
  };
  return [...document.querySelectorAll(`${ofPage}, ${ofDialog}`)].filter(isSmall).map(({ outerHTML }) => outerHTML);
}

/** In the page: the controls whose border is too faint beside what is around them. */
function faintBorders(least) {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const colorOf = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([red, green, blue]) => {
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
  };
  const around = (element) => {
    for (let parent = element.parentElement; parent; parent = parent.parentElement) {
      const color = colorOf(getComputedStyle(parent).backgroundColor);
      if (color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const contrast = (element) => {
    const border = colorOf(getComputedStyle(element).borderBlockStartColor);
    // A control without a border is a text.
    if (border[3] === 0) return Infinity;
    const [light, dark] = [luminance(border), luminance(around(element))].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const isFaint = (element) => element.checkVisibility() && contrast(element) < least;
  const controls = document.querySelectorAll(":is(button, input:not([type='checkbox'], [type='file']), select):enabled");
  return [...controls].filter(isFaint).map(({ outerHTML }) => outerHTML);
}

async function walk(browser, colorScheme, reader) {
  const person = await browser.person({ colorScheme, reducedMotion: "reduce" });
  const page = await browser.tab(person);
  const dialog = page.getByRole("dialog");

  const looksGood = async (state) => {
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: HEIGHT });
      const found = await axeFinds(page, colorScheme);
      assert.equal(JSON.stringify(found, null, 1), "[]", `axe on ${state} at ${width} px in ${colorScheme}`);
      const overflow = () => page.evaluate(() => {
        const tooWide = [document.scrollingElement, ...document.querySelectorAll("main, dialog, :popover-open")];
        return tooWide.filter((element) => element.scrollWidth > element.clientWidth).map(({ tagName }) => tagName);
      });
      await eventually(overflow, [], `what is too wide in ${state} at ${width} px`);
      if (width === PHONE) await fitsAPhone(page, state);
      const faint = () => page.evaluate(faintBorders, BORDER_CONTRAST_LEAST);
      await eventually(faint, [], `too faint borders in ${state} at ${width} px`);
      await screenshot(page, `page-${state}-${colorScheme}-${width}`);
    }
  };

  await page.getByLabel("Token").waitFor();
  await looksGood("sign-in");
  await page.getByLabel("Token").fill("not a token");
  await press(page, "Sign in");
  await page.getByRole("alert").filter({ hasText: "token" }).waitFor();
  await looksGood("refused");
  await signIn(page);
  await page.getByText("No plants yet").waitFor();
  await looksGood("empty");

  await store(PLANTS);
  await row(page, "12").waitFor();
  await eventually(() => page.locator(".fresh").count(), 0, "plants that are marked as new for good");
  await page.locator(".toolbar").waitFor();
  await looksGood("list");
  await press(page, "Keys");
  await dialog.getByText("Next page").waitFor();
  await looksGood("keys");
  await press(dialog, "Close");
  await press(page, "Webhooks");
  await dialog.getByText("There are no webhooks.").waitFor();
  await looksGood("webhooks-none");
  await page.route(/webhooks$/, (route) => route.fulfill({ json: { webhooks: WEBHOOKS } }));
  await press(dialog, "Refresh");
  await dialog.getByRole("listitem").last().waitFor();
  await looksGood("webhooks");
  await press(dialog, "Close");
  await page.unroute(/webhooks$/);
  await page.setViewportSize({ width: PHONE, height: HEIGHT });
  await press(page, "More");
  await page.locator(":popover-open").waitFor();
  await screenshot(page, `page-menu-${colorScheme}-${PHONE}`);
  await fitsAPhone(page, "menu");
  await page.mouse.click(10, 10);
  await page.locator(":popover-open").waitFor({ state: "detached" });
  await page.setViewportSize({ width: 1280, height: HEIGHT });
  await send("PUT", "plants/5", '{"name":"Bellis annua","tag":"Asteraceae"}');
  await row(page, "5").getByText("Bellis annua").waitFor();
  await looksGood("change-of-another");
  await row(page, "6").getByRole("button", { name: "Delete" }).click();
  // With the focus in it, the message stays.
  await page.getByRole("button", { name: "Undo" }).focus();
  await looksGood("deleted");

  await row(page, "3").getByRole("link", { name: "Quercus robur" }).click();
  await dialog.getByRole("button", { name: "Close" }).waitFor();
  await looksGood("plant");
  await press(dialog, "Close");
  const openHistory = async (id) => {
    await row(page, id).getByRole("link").click();
    await press(dialog, "History");
    await dialog.getByRole("listitem").nth(1).waitFor();
  };
  await openHistory("5");
  await looksGood("history");
  await press(dialog, "Close");
  await press(page, "Add plant");
  await dialog.getByLabel("Id").fill("1");
  await press(dialog, "Save");
  await dialog.getByRole("alert").filter({ hasText: "name" }).waitFor();
  await looksGood("add");
  await page.keyboard.press("Escape");
  await dialog.getByText("Discard what you have typed?").waitFor();
  await looksGood("discard");
  await press(dialog, "Discard");
  await row(page, "7").getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Name").fill("Urtica urens");
  await send("PUT", "plants/7", '{"name":"Urtica dioica L.","tag":"Urticaceae"}');
  await press(dialog, "Save");
  await dialog.getByText("Stored now").waitFor();
  await looksGood("conflict");
  await press(dialog, "Cancel");

  await press(page, "All tags");
  await dialog.getByRole("listitem").first().waitFor();
  await looksGood("tags");
  await dialog.getByRole("button", { name: "Rosaceae" }).click();
  await page.getByText("2 plants with the tag “Rosaceae”").waitFor();
  await looksGood("tag");
  await page.getByLabel("Search plants").fill("palm");
  await page.getByText("No plants match").waitFor();
  await looksGood("nothing-found");
  await press(page, "Show all plants");

  await press(page, "Import");
  await dialog.getByText("Choose a file").waitFor();
  await looksGood("import");
  const rows = Array.from({ length: 30 }, (_, index) => `${index},`).join("\n");
  await dialog.locator("input[type=file]").setInputFiles({
    name: "plants.csv", mimeType: "text/csv", buffer: Buffer.from(`id,name\n${rows}\n`),
  });
  await dialog.getByRole("button", { name: "Import 30 plants" }).waitFor();
  await looksGood("import-preview");
  await press(dialog, "Import 30 plants");
  await dialog.getByText("Failed rows").first().waitFor();
  await looksGood("imported");
  await press(dialog, "Close");
  await press(page, "Export");
  await looksGood("export");
  await press(dialog, "Cancel");

  await store(LONG);
  await row(page, LONG[0].split(",")[0]).waitFor();
  await looksGood("long");
  await send("PUT", `plants/${LONG[0].split(",")[0]}`, JSON.stringify({ name: "M".repeat(255) }));
  await openHistory(LONG[0].split(",")[0]);
  await looksGood("history-long");
  await press(dialog, "Close");
  await press(page, "Sign out");
  await signIn(page, reader);
  await row(page, "1").waitFor();
  await looksGood("reader");
  await isScopeWhole(page);
  await person.setOffline(true);
  await row(page, "1").getByRole("link", { name: "Rosa canina" }).click();
  await page.getByRole("alert").getByText("No connection").waitFor();
  await looksGood("offline");
  await person.setOffline(false);
  await dialog.getByRole("button", { name: "Close" }).waitFor();

  // The server does not answer requests of these kinds.
  const unanswered = async (path, body, steps) => {
    await page.route(path, (route) => body && route.fulfill({ status: 503, body, headers: { "Retry-After": "1" } }));
    await steps();
    await page.unroute(path);
  };
  await press(dialog, "Close");
  await press(page, "Sign out");
  await signIn(page);
  await unanswered(/plants\/1$/, '{"error":5003,"message":"the server has too much to do"}', async () => {
    await row(page, "1").getByRole("button", { name: "Edit" }).click();
    await page.getByText("The server is busy. Trying again …").waitFor();
    await looksGood("busy");
  });
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await unanswered(/import/, null, async () => {
    await press(page, "Import");
    await dialog.locator("input[type=file]").setInputFiles({
      name: "plants.csv", mimeType: "text/csv", buffer: Buffer.from("id,name\n1,Rosa\n"),
    });
    await press(dialog, "Import 1 plant");
    await dialog.getByRole("progressbar").waitFor();
    await looksGood("importing");
    await press(dialog, "Stop");
    await press(dialog, "Cancel");
  });
  await unanswered(/export/, null, async () => {
    await press(page, "Export");
    await press(dialog, "CSV");
    await dialog.getByRole("progressbar").waitFor();
    await looksGood("exporting");
    await press(dialog, "Cancel");
  });
  await page.getByLabel("Search plants").fill("x".repeat(256));
  await page.getByText("name must have 1 to 255 characters").waitFor();
  await looksGood("list-refused");
  await page.getByLabel("Search plants").fill("");
  await row(page, "1").waitFor();

  const token = await order(`create-token visitor-${colorScheme} write`);
  await press(page, "Sign out");
  await signIn(page, token);
  await order(`revoke-token visitor-${colorScheme}`);
  await page.getByRole("alert").getByText("The token has ended").waitFor();
  await looksGood("token-ended");

  // Without the third argument of a reviver, the source text of a number.
  await person.addInitScript(() => {
    const { parse } = JSON;
    JSON.parse = (text, reviver) => parse(text, reviver && ((key, value) => reviver(key, value)));
  });
  await page.reload();
  await page.getByText("This page needs a newer browser").waitFor();
  await looksGood("old-browser");

  await send("DELETE", `plants/${LONG[0].split(",")[0]}`);
  for (let id = 1; id <= PLANTS.length; id++) await send("DELETE", `plants/${id}`);
}
