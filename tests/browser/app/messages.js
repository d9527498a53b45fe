// What happened last is said in messages that leave by themselves. Each deletion has an undo of its own.

"use strict";

const { assert, eventually, ids, inBrowser, jump, row, send, status, store } = require("../harness.js");

const SHOWN_MS = 6000;
const SHOWN_WITH_UNDO_MS = 15_000;

inBrowser(async (browser) => {
  await store(Array.from({ length: 40 }, (_, index) => `${index + 1},Plant ${index + 1},`));
  const page = await browser.signedIn();
  const all = await ids(page);
  const messages = page.getByRole("region", { name: "What happened" }).getByRole("listitem");
  const message = (text) => messages.filter({ hasText: text });
  const says = (count) => eventually(() => messages.count(), count, "the number of messages");
  const remove = async (id) => {
    await row(page, id).getByRole("button", { name: "Delete" }).click();
    await row(page, id).waitFor({ state: "detached" });
  };

  // Several at a time, and each undo is of its own plant. Closing one message leaves the others.
  for (const id of ["3", "5", "7"]) await remove(id);
  await says(3);
  await message("(5)").getByRole("button", { name: "Dismiss" }).click();
  await says(2);
  await message("(3)").getByRole("button", { name: "Undo" }).click();
  await row(page, "3").waitFor();
  assert.equal(await row(page, "7").count(), 0, "the undo of one plant brings back another");
  await message("(7)").getByRole("button", { name: "Undo" }).click();
  await row(page, "7").waitFor();
  await send("PUT", "plants/5", '{"name":"Plant 5"}');
  await eventually(() => ids(page), all);

  // They cover no row: the rows end where the messages begin.
  await remove("2");
  const [rowsEnd, messagesBegin] = await page.evaluate(() =>
    [document.querySelector("main").getBoundingClientRect().bottom, document.querySelector(".toasts").getBoundingClientRect().top]);
  assert.ok(rowsEnd <= messagesBegin, `the rows end at ${rowsEnd}, and the messages begin at ${messagesBegin}`);
  await page.getByRole("button", { name: "Undo" }).first().click();
  await row(page, "2").waitFor();

  // They leave after a while, with an undo later than without. From here on, the script turns the clock of the page.
  await page.clock.install();
  await page.reload();
  await row(page, "2").waitFor();
  await jump(page, "no id");
  await message("An id is").waitFor();
  await remove("9");
  await message("(9)").waitFor();
  await page.mouse.move(0, 0);
  await page.clock.runFor(SHOWN_MS);
  await says(1);
  await page.clock.runFor(SHOWN_WITH_UNDO_MS - SHOWN_MS);
  await says(0);
  assert.equal(await status(page), "Deleted “Plant 9” (9).", "a screen reader finds the last message");

  // A message stays for as long as the pointer is over it, or the focus is in it.
  const stays = async () => {
    await page.clock.runFor(10 * SHOWN_WITH_UNDO_MS);
    await says(1);
  };
  await remove("10");
  await message("(10)").hover();
  await stays();
  await message("(10)").getByRole("button", { name: "Undo" }).focus();
  await page.mouse.move(0, 0);
  await stays();
  await page.locator("main").focus();
  await page.clock.runFor(SHOWN_WITH_UNDO_MS);
  await says(0);
});
