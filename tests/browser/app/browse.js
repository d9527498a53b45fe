// Browses: pages in both directions, a jump, a search while typing, tags, one plant, and the back button.

"use strict";

const {
  assert, eventually, ids, inBrowser, jump, position, press, row, send, signIn, status, store, LARGEST, PLANTS_URL, SMALLEST,
} = require("../harness.js");

const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => String(from + index));

inBrowser(async (browser) => {
  const families = ["Rosaceae", "Salicaceae", ""];
  const dense = numbers(1, 450).map((id) => `${id},Plant ${id},${families[id % 3]}`);
  // Far apart from each other, and from the others.
  const sparse = numbers(1, 250).map((n) => `${BigInt(n) * 30_000_000_000_000_000n},Sparse ${n},Rare`);
  await store([`${SMALLEST},First,`, ...dense, ...sparse, `${LARGEST},Last,`]);
  const all = [SMALLEST, ...numbers(1, 450), ...sparse.map((line) => line.split(",")[0]), LARGEST];

  const page = await browser.signedIn();
  const shows = (expected, what) => eventually(() => ids(page), expected, what);
  const says = (text) => eventually(() => position(page), text);

  // Forward to the end, and all the way back.
  const pages = [];
  for (let from = 0; from < all.length; from += 100) pages.push(all.slice(from, from + 100));
  await shows(pages[0], "the first page");
  await says("1–100 of 702 plants");
  for (const [index, next] of pages.entries()) {
    if (index === 0) continue;
    await press(page, "Next");
    await shows(next, "the next page");
    await says(`${100 * index + 1}–${100 * index + next.length} of 702 plants`);
  }
  assert.ok(await page.getByRole("button", { name: "Next" }).first().isDisabled(), "there is a page after the last one");
  // Each page back is one request.
  const lists = [];
  page.on("request", (request) => /plants\?/.test(request.url()) && lists.push(request.url()));
  const turnBack = async (expected, what) => {
    lists.length = 0;
    await press(page, "Previous");
    await shows(expected, what);
    assert.equal(lists.length, 1, `requests of ${what}: ${lists}`);
  };
  let last = all.length - pages.at(-1).length;
  for (; last > 100; last -= 100) {
    await turnBack(all.slice(last - 100, last), "the previous page");
    await says(`${last - 99}–${last} of 702 plants`);
  }
  await press(page, "Previous");
  await shows(pages[0], "the first page again");
  assert.ok(await page.getByRole("button", { name: "Previous" }).first().isDisabled(), "there is a page before the first one");

  // The controls below the plants lead to the top of the next page.
  await page.getByRole("button", { name: "Next" }).last().click();
  await shows(pages[1], "the page after the control below");
  await eventually(() => page.locator("main").evaluate((main) => main.scrollTop), 0);
  await press(page, "Previous");
  await shows(pages[0], "the first page again");

  // A second "Next" before the first is answered turns no other page, and the position stays right.
  let answer;
  const asked = new Promise((resolve) => (answer = resolve));
  await page.route(/plants\?.*after=/, (route) => asked.then(() => route.continue()));
  await page.keyboard.press("n");
  await page.keyboard.press("n");
  answer();
  await shows(pages[1], "the second page");
  await says("101–200 of 702 plants");
  await page.unroute(/plants\?.*after=/);
  await press(page, "Previous");
  await shows(pages[0], "the first page again");

  // The back button and a reload lead to the same plants.
  await press(page, "Next");
  await shows(pages[1], "the second page");
  await press(page, "Next");
  await shows(pages[2], "the third page");
  await page.goBack();
  await shows(pages[1], "back");
  await says("101–200 of 702 plants");
  await page.goForward();
  await shows(pages[2], "forward");
  await says("201–300 of 702 plants");
  await page.reload();
  await shows(pages[2], "after a reload");
  await says("201–300 of 702 plants");

  // A position that the page cannot know is not made up. At the end, it follows from the total.
  const shared = await page.context().newPage();
  await shared.goto(page.url());
  await signIn(shared);
  await eventually(() => ids(shared), pages[2], "the page of a shared link");
  await eventually(() => position(shared), "100 of 702 plants, from id 200");
  await shared.close();

  // A jump, and the pages before and after it.
  await jump(page, "300");
  await shows(all.slice(300, 400), "after the jump");
  await says("100 of 702 plants, from id 300");
  assert.match(await row(page, "300").getAttribute("class"), /target/);
  await turnBack(all.slice(200, 300), "before the jump");
  // The first page is as long as any other.
  await jump(page, "50");
  await shows(all.slice(50, 150), "after another jump");
  await turnBack(pages[0], "the first page after a jump");
  await says("1–100 of 702 plants");
  for (const [id, from, said] of [
    [LARGEST, 701, "Plant 9223372036854775807 is the first on this page."],
    ["7500000000000000000", 701 - 1, "Plant 7500000000000000000 is the first on this page."],
    ["30000000000000001", 452, "There is no plant 30000000000000001. The next ones are shown."],
    [SMALLEST, 0, "Plant -9223372036854775808 is the first on this page."],
  ]) {
    await jump(page, id);
    await shows(all.slice(from, from + 100), `from ${id} on`);
    await eventually(() => status(page), said);
  }
  // Back from far beyond the other plants.
  await press(page, "Next");
  await shows(pages[1], "the second page");
  await jump(page, LARGEST);
  await shows([LARGEST], "the last plant");
  await says("702 of 702 plants");
  await turnBack(all.slice(-101, -1), "before the last plant");
  await says("602–701 of 702 plants");
  await press(page, "First");
  await shows(pages[0], "the first page");
  for (const text of ["9223372036854775808", "rose", "1.5", ""]) {
    await jump(page, text);
    await eventually(() => status(page), "An id is a whole number from -9223372036854775808 to 9223372036854775807.");
  }

  // A search while typing.
  const search = page.getByLabel("Search plants");
  await search.pressSequentially("SPARSE 2");
  const found = sparse.filter((line) => /Sparse 2/.test(line)).map((line) => line.split(",")[0]);
  await shows(found.slice(0, 100), "found");
  await says("62 plants matching “SPARSE 2”");
  await search.fill("sparse");
  await says("1–100 of 250 plants matching “sparse”");
  await press(page, "Next");
  await says("101–200 of 250 plants matching “sparse”");
  await page.reload();
  await says("101–200 of 250 plants matching “sparse”");
  await press(page, "Next");
  await says("201–250 of 250 plants matching “sparse”");
  await press(page, "First");
  await search.fill("no such plant");
  await page.getByText("No plants match").waitFor();
  await press(page, "Show all plants");
  await shows(pages[0], "all again");
  assert.equal(await search.inputValue(), "");

  // A jump leaves the search, which might not find the id.
  await search.fill("Sparse");
  await page.getByText("matching “Sparse”").waitFor();
  await jump(page, "450");
  await shows(all.slice(450, 550), "after a jump from a search");
  assert.equal(await search.inputValue(), "");
  await press(page, "First");
  await shows(pages[0], "all again");

  // By tag, with pages in both directions; and by tag and name.
  await press(page, "All tags");
  const choice = page.getByRole("dialog");
  await eventually(
    () => choice.getByRole("listitem").allTextContents().then((texts) => texts.map((text) => text.trim())),
    ["Rare 250", "Rosaceae 150", "Salicaceae 150"],
  );
  await choice.getByLabel("Find a tag").fill("sal");
  await choice.getByRole("button", { name: "Salicaceae" }).click();
  const salicaceae = numbers(1, 450).filter((id) => id % 3 === 1);
  await shows(salicaceae.slice(0, 100), "with the tag");
  await says("1–100 of 150 plants with the tag “Salicaceae”");
  await press(page, "Next");
  await shows(salicaceae.slice(100), "the next with the tag");
  await says("101–150 of 150 plants with the tag “Salicaceae”");
  await turnBack(salicaceae.slice(0, 100), "the previous with the tag");
  await search.fill("plant 44");
  await shows(["442", "445", "448"], "with tag and name");
  await press(page, "Show all tags");
  await shows(["44", ...numbers(440, 449)], "with the name");
  await search.fill("");
  await shows(pages[0], "all again");
  await row(page, "4").getByRole("button", { name: "Salicaceae" }).click();
  await shows(salicaceae.slice(0, 100), "with the tag of the row");

  // One plant, whose address can be passed on.
  await row(page, "4").getByRole("link", { name: "Plant 4" }).click();
  const plant = page.getByRole("dialog", { name: "Plant 4" });
  await plant.getByText("Salicaceae").waitFor();
  assert.match(page.url(), /plant=4$/);
  await page.reload();
  await page.getByRole("dialog", { name: "Plant 4" }).getByRole("button", { name: "Close" }).click();
  assert.doesNotMatch(page.url(), /plant=/);

  // In another tab, which is signed in too, by a click with the key for that.
  const [opened] = await Promise.all([
    page.context().waitForEvent("page"),
    row(page, "7").getByRole("link", { name: "Plant 7" }).click({ modifiers: ["ControlOrMeta"] }),
  ]);
  await opened.waitForURL(/#plant=7$/);
  assert.equal(await page.getByRole("dialog").count(), 0, "the plant opens in this tab too");
  await opened.getByRole("dialog", { name: "Plant 7" }).waitFor();
  await opened.close();

  // Beyond the last plant.
  await send("DELETE", `plants/${LARGEST}`);
  await jump(page, LARGEST);
  await eventually(() => status(page), `No more plants after ${LARGEST}. The search was cleared.`);
  await page.getByRole("heading", { name: "No more plants" }).waitFor();
  await press(page, "Previous");
  await shows(all.slice(-101, -1), "before the end");
  await says("602–701 of 701 plants");

  // More plants match than one answer has.
  await store(numbers(1_000, 2_100).map((id) => `${id},Dense,`));
  await search.fill("dense");
  await says("1–100 of 1,000+ plants matching “dense”");
  await press(page, "Next");
  await says("101–200 of 1,000+ plants matching “dense”");

  // On a phone, a page is short, and the actions on a plant are in its dialog.
  await page.setViewportSize({ width: 390, height: 800 });
  await search.fill("");
  await says("1–25 of 1,802 plants");
  await press(page, "Next");
  await says("26–50 of 1,802 plants");
  const height = await page.locator("main").evaluate((main) => main.scrollHeight);
  assert.ok(height < 2000, `a page on a phone is ${height} px high`);
  assert.equal(await page.getByRole("button", { name: "Delete" }).count(), 0);
  await page.getByRole("row").nth(1).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await press(page, "More");
  await page.getByRole("button", { name: "All tags" }).click();
  await choice.getByRole("button", { name: "Rare" }).click();
  await says("1–25 of 250 plants with the tag “Rare”");
  await press(page, "Show all tags");
  await says("1–25 of 1,802 plants");
  await page.setViewportSize({ width: 1280, height: 800 });
  await says("1–100 of 1,802 plants");

  // An address that makes no sense leads to the beginning.
  const another = await page.context().newPage();
  await another.goto(`${PLANTS_URL}/#plant=../token&after=x&other=1`);
  await signIn(another);
  await eventually(() => ids(another), pages[0], "the first page");
  assert.equal(await another.getByRole("dialog").count(), 0);
});
