// Browses: pages in both directions, a jump, a search while typing, tags, one plant, and the back button.

"use strict";

const { assert, eventually, ids, inBrowser, row, signIn, status, store } = require("../harness.js");

const LARGEST = "9223372036854775807";
const SMALLEST = "-9223372036854775808";

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
  const press = (name) => page.getByRole("button", { name, exact: true }).click();

  // Forward to the end, and all the way back.
  const pages = [];
  for (let from = 0; from < all.length; from += 100) pages.push(all.slice(from, from + 100));
  await shows(pages[0], "the first page");
  await page.getByText("702 plants").waitFor();
  for (const next of pages.slice(1)) {
    await press("Next");
    await shows(next, "the next page");
  }
  assert.ok(await page.getByRole("button", { name: "Next" }).isDisabled(), "there is a page after the last one");
  let last = all.length - pages.at(-1).length;
  for (; last > 100; last -= 100) {
    await press("Previous");
    await shows(all.slice(last - 100, last), "the previous page");
  }
  await press("Previous");
  await shows(pages[0], "the first page again");
  assert.ok(await page.getByRole("button", { name: "Previous" }).isDisabled(), "there is a page before the first one");

  // The back button and a reload lead to the same plants.
  await press("Next");
  await shows(pages[1], "the second page");
  await page.goBack();
  await shows(pages[0], "back");
  await page.goForward();
  await shows(pages[1], "forward");
  await page.reload();
  await shows(pages[1], "after a reload");

  // A jump, and the pages before and after it.
  const jump = async (id) => {
    await page.getByLabel("Jump to").fill(id);
    await page.getByLabel("Jump to").press("Enter");
  };
  await jump("300");
  await shows(all.slice(300, 400), "after the jump");
  assert.match(await row(page, "300").getAttribute("class"), /target/);
  await press("Previous");
  await shows(all.slice(200, 300), "before the jump");
  for (const [id, from, said] of [
    [LARGEST, 701, "Plant 9223372036854775807 is the first on this page."],
    ["30000000000000001", 452, "There is no plant 30000000000000001. The next ones are shown."],
    [SMALLEST, 0, "Plant -9223372036854775808 is the first on this page."],
  ]) {
    await jump(id);
    await shows(all.slice(from, from + 100), `from ${id} on`);
    await eventually(() => status(page), said);
  }
  // Back from far beyond the other plants.
  await press("Next");
  await shows(pages[1], "the second page");
  await jump(LARGEST);
  await shows([LARGEST], "the last plant");
  await press("Previous");
  await shows(all.slice(-101, -1), "before the last plant");
  await press("First");
  await shows(pages[0], "the first page");
  for (const text of ["9223372036854775808", "rose", "1.5", ""]) {
    await jump(text);
    await eventually(() => status(page), "An id is a whole number from -9223372036854775808 to 9223372036854775807.");
  }

  // A search while typing.
  const search = page.getByLabel("Search plants");
  await search.pressSequentially("SPARSE 2");
  const found = sparse.filter((line) => /Sparse 2/.test(line)).map((line) => line.split(",")[0]);
  await shows(found.slice(0, 100), "found");
  await page.getByText("62 plants matching “SPARSE 2”").waitFor();
  await search.fill("no such plant");
  await page.getByText("No plants match.").waitFor();
  await press("Show all plants");
  await shows(pages[0], "all again");
  assert.equal(await search.inputValue(), "");

  // A jump leaves the search, which might not find the id.
  await search.fill("Sparse");
  await page.getByText("matching “Sparse”").waitFor();
  await jump("450");
  await shows(all.slice(450, 550), "after a jump from a search");
  assert.equal(await search.inputValue(), "");
  await press("First");
  await shows(pages[0], "all again");

  // By tag, with pages in both directions; and by tag and name.
  await press("All tags");
  const choice = page.getByRole("dialog");
  await eventually(
    () => choice.getByRole("listitem").allTextContents().then((texts) => texts.map((text) => text.trim())),
    ["Rare 250", "Rosaceae 150", "Salicaceae 150"],
  );
  await choice.getByLabel("Find a tag").fill("sal");
  await choice.getByRole("button", { name: "Salicaceae" }).click();
  const salicaceae = numbers(1, 450).filter((id) => id % 3 === 1);
  await shows(salicaceae.slice(0, 100), "with the tag");
  await page.getByText("150 plants with the tag “Salicaceae”").waitFor();
  await press("Next");
  await shows(salicaceae.slice(100), "the next with the tag");
  await press("Previous");
  await shows(salicaceae.slice(0, 100), "the previous with the tag");
  await search.fill("plant 44");
  await shows(["442", "445", "448"], "with tag and name");
  await press("Show all tags");
  await shows(["44", ...numbers(440, 449)], "with the name");
  await search.fill("");
  await shows(pages[0], "all again");
  await row(page, "4").getByRole("button", { name: "Salicaceae" }).click();
  await shows(salicaceae.slice(0, 100), "with the tag of the row");

  // One plant, whose address can be passed on.
  await row(page, "4").getByRole("button", { name: "Plant 4" }).click();
  const plant = page.getByRole("dialog", { name: "Plant 4" });
  await plant.getByText("Salicaceae").waitFor();
  assert.match(page.url(), /plant=4$/);
  await page.reload();
  await page.getByRole("dialog", { name: "Plant 4" }).getByRole("button", { name: "Close" }).click();
  assert.doesNotMatch(page.url(), /plant=/);

  // An address that makes no sense leads to the beginning.
  const another = await page.context().newPage();
  await another.goto(`${process.env.PLANTS_URL}/#plant=../token&after=x&other=1`);
  await signIn(another);
  await eventually(() => ids(another), pages[0], "the first page");
  assert.equal(await another.getByRole("dialog").count(), 0);
});
