// What the scripts share: a browser that notes every complaint, a person who signs in, the interface of the
// server, and orders to the test that has started the script.

"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const path = require("node:path");
const readline = require("node:readline");
const axe = require("axe-core");
const playwright = require("playwright-core");

// The folder for pictures is set only if pictures are wanted, because a script can take a hundred of them.
const { PICTURES_FOLDER, PLANTS_URL, PLANTS_TOKEN } = process.env;

// The server at an address that is no loopback address for the browser, which then takes the connection for insecure.
const INSECURE_URL = new URL(PLANTS_URL);
INSECURE_URL.hostname = "plants.example";

// The ids at both ends.
const LARGEST = "9223372036854775807";
const SMALLEST = "-9223372036854775808";

const WIDE = { width: 1280, height: 800 };

// The generous deadline of a step, which only ends a test that would hang.
const TIMEOUT_MS = 120_000;

// How each browser starts, as Debian installs it.
const BROWSERS = {
  // As root, Chromium starts only without its sandbox.
  chromium: {
    program: "chromium-headless-shell",
    args: ["--no-sandbox", `--host-resolver-rules=MAP ${INSECURE_URL.hostname} 127.0.0.1`],
  },
  // A Firefox of Mozilla's, which understands WebDriver BiDi, instead of Playwright's own.
  firefox: { program: "firefox-esr", channel: "moz-firefox" },
};

/** Runs a script in a browser, and fails if the browser complains about anything but what the script expects. */
function inBrowser(script, name = "chromium") {
  run(script, name).then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

async function run(script, name) {
  const { program = name, ...options } = BROWSERS[name];
  const executablePath = execFileSync("which", [program], { encoding: "utf8" }).trim();
  const launched = await playwright[name].launch({ executablePath, ...options });
  const browser = new Browser(launched);
  try {
    await script(browser);
    assert.deepEqual(browser.complaints, [], "complaints of the browser");
  } finally {
    await launched.close();
  }
}

class Browser {
  complaints = [];
  #expected = [];
  #launched;

  constructor(launched) {
    this.#launched = launched;
  }

  /** Accepts complaints that match this pattern: a browser reports every answer that is not a success. */
  expect(pattern) {
    this.#expected.push(pattern);
  }

  /** A person with a browser of their own, which does not animate: to draw each step in all tabs would keep a processor busy. */
  async person(options = {}) {
    const context = await this.#launched.newContext({ viewport: WIDE, reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(TIMEOUT_MS);
    return context;
  }

  /** A tab with the page. Nobody has signed in there. */
  async tab(person, url = PLANTS_URL) {
    const page = await person.newPage();
    const complain = (text) => {
      if (!this.#expected.some((pattern) => pattern.test(text))) this.complaints.push(text);
    };
    page.on("console", (message) => complain(message.text()));
    page.on("pageerror", (error) => complain(error.stack));
    const origin = `${new URL(url).origin}/`;
    page.on("request", (request) => {
      const requested = request.url();
      if (!/^(data:|blob:)/.test(requested) && !requested.startsWith(origin)) complain(`a request to ${requested}`);
    });
    await page.goto(url);
    return page;
  }

  /** A tab of a person who has signed in. */
  async signedIn({ person, token = PLANTS_TOKEN, url } = {}) {
    const page = await this.tab(person ?? (await this.person()), url);
    await signIn(page, token);
    return page;
  }
}

/** Signs in, again and again if need be: the server knows a new token within two seconds. */
async function signIn(page, token = PLANTS_TOKEN) {
  const dialog = page.getByRole("dialog", { name: "Plant Store" });
  const tryOnce = async () => {
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    const isRefused = dialog.getByRole("alert").filter({ hasText: /./ });
    await isRefused.or(page.getByRole("table")).or(page.getByText("No plants yet")).first().waitFor();
    return dialog.isVisible();
  };
  await eventually(tryOnce, false, "whether a token is still asked for");
}

/** Opens the dialog that adds a plant, fills it in, and saves. */
async function add(page, id, name, tag = "") {
  await page.getByRole("button", { name: "Add plant", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Id").fill(id);
  await dialog.getByLabel("Name").fill(name);
  await dialog.getByLabel("Tag").fill(tag);
  await dialog.getByRole("button", { name: "Save" }).click();
}

/** Presses a button of a page, or of a part of it. Of several with this name, the first one. */
const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click();

/** Jumps to an id, as a person types it. */
async function jump(page, id) {
  await page.getByLabel("Jump to").fill(id);
  await page.getByLabel("Jump to").press("Enter");
}

/** The row of a plant. */
function row(page, id) {
  const cell = page.locator("td:first-child").getByText(id, { exact: true });
  return page.getByRole("row").filter({ has: cell });
}

/** Waits until a condition on the page holds, and fails with what there is instead. */
async function eventually(actual, expected, what) {
  const end = Date.now() + TIMEOUT_MS;
  for (;;) {
    const value = await actual();
    try {
      assert.deepEqual(value, expected, what);
      return;
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** The ids on the page, from the first to the last. */
const ids = (page) => page.locator(".plants td:first-child").allTextContents();

/** Which of how many plants are on the page. */
const position = (page) => page.locator(".position").textContent().then((text) => text.trim());

/** What the status region says, without the marks that isolate the direction of a name. */
const status = (page) => page.getByRole("status").textContent().then((text) => text.replace(/[\u2068\u2069]/g, ""));

/** In the page: marks each text that looks as one before it: the style is the same, and so is that of all around it. */
function markRepeated() {
  const looks = new Map();
  const numbers = new Map([[null, 0]]);
  for (const element of document.querySelectorAll("*")) {
    const { color, backgroundColor, backgroundImage, opacity, fontSize, fontWeight } = getComputedStyle(element);
    const style = [color, backgroundColor, backgroundImage, opacity, fontSize, fontWeight, element.getAttribute("class")];
    const look = [numbers.get(element.parentElement), ...style].join();
    const isRepeated = looks.has(look);
    if (!isRepeated) looks.set(look, looks.size + 1);
    numbers.set(element, looks.get(look));
    element.toggleAttribute("data-repeated", isRepeated && element.childElementCount === 0);
  }
}

/**
 * What axe finds in a page, except for some elements. The contrast takes axe by far the longest, so axe looks at one text of
 * each look. In dark, axe looks at the contrast only: the rest is as in light.
 */
async function axeFinds(page, colorScheme, except = []) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe.source);
  await page.evaluate(markRepeated);
  // The preload parses style sheets in inline styles, as the policy of the page forbids.
  const options = { preload: false, resultTypes: ["violations"] };
  if (colorScheme === "dark") options.runOnly = ["color-contrast"];
  const run = async ([exclude, options]) => {
    window.axe.configure({ rules: [{ id: "color-contrast", selector: ":not([data-repeated])" }] });
    const { violations } = await window.axe.run({ include: [document], exclude }, options);
    for (const element of document.querySelectorAll("[data-repeated]")) element.removeAttribute("data-repeated");
    return violations;
  };
  const violations = await page.evaluate(run, [except, options]);
  return violations.map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => [html, failureSummary])]);
}

/** Takes a picture of a page, if pictures are wanted. */
async function screenshot(page, name) {
  if (PICTURES_FOLDER) await page.screenshot({ path: path.join(PICTURES_FOLDER, `${name}.png`) });
}

/** Sends a request to the server. `body` is text, so that ids stay exact. */
async function send(method, path, body, type = "application/json") {
  const headers = { Authorization: `Bearer ${PLANTS_TOKEN}`, ...(body && { "Content-Type": type }) };
  const answer = await fetch(`${PLANTS_URL}/${path}`, { method, headers, body });
  return { status: answer.status, text: await answer.text() };
}

/** Stores plants, given as rows of CSV without a head. */
async function store(rows) {
  const { status, text } = await send("POST", "plants/import", `id,name,tag\n${rows.join("\n")}\n`, "text/csv");
  assert.equal(status, 200, text);
  assert.match(text, /"failed":0,/);
}

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has the test that started this script do something with the server, and returns its answer. */
async function order(words) {
  console.log(words);
  const { value, done } = await lines.next();
  assert.ok(!done, `no answer to the order ${words}`);
  return value;
}

module.exports = {
  add, assert, axeFinds, eventually, ids, inBrowser, jump, order, position, press, row, screenshot, send, signIn, status,
  store, INSECURE_URL, LARGEST, PLANTS_TOKEN, PLANTS_URL, SMALLEST,
};
