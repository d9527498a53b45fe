// One whole pass by keyboard alone, through every dialog.

"use strict";

const { assert, eventually, ids, inBrowser, row, send, status, store, PLANTS_TOKEN } = require("../harness.js");

// More than there are stops on a full page of plants.
const MOST_STOPS = 600;

inBrowser(async (browser) => {
  browser.expect(/status of 412/);
  const page = await browser.tab(await browser.person());
  const { keyboard } = page;

  /** The name of what has the focus, as a screen reader says it. */
  const focused = () => page.evaluate(() => {
    const { activeElement } = document;
    const label = activeElement.getAttribute("aria-label") ?? activeElement.labels?.[0]?.textContent;
    return label ?? activeElement.textContent.trim();
  });
  /** Presses Tab until the focus is on something with this name, for the nth time. */
  const tabTo = async (name, { nth = 1, key = "Tab" } = {}) => {
    const seen = [];
    for (let stop = 0; stop < MOST_STOPS; stop++) {
      await keyboard.press(key);
      const found = await focused();
      seen.push(found);
      if (found === name && --nth === 0) return;
    }
    assert.fail(`${name} is not among the stops ${seen}`);
  };
  const press = async (name, options) => {
    await tabTo(name, options);
    await keyboard.press("Enter");
  };
  const isFocused = (name) => eventually(focused, name, "what has the focus");

  await isFocused("Token");
  await keyboard.type(PLANTS_TOKEN);
  await keyboard.press("Enter");
  await page.getByText("No plants yet").waitFor();

  // Adds two plants.
  for (const [id, name, tag] of [["1", "Rosa canina", "Rosaceae"], ["-2", "Salix alba", "Salicaceae"]]) {
    await press("Add plant");
    await isFocused("Id");
    await keyboard.type(id);
    await tabTo("Name");
    await keyboard.type(name);
    await tabTo("Tag");
    await keyboard.type(tag);
    await keyboard.press("Enter");
    await eventually(() => status(page), `Added “${name}” (${id}).`);
    await isFocused("Add plant");
  }
  await eventually(() => ids(page), ["-2", "1"]);

  // Edits one, and gives up on another edit.
  await press("Edit", { nth: 2 });
  await isFocused("Name");
  await keyboard.press("End");
  await keyboard.type(" L.");
  await press("Save");
  await row(page, "1").getByText("Rosa canina L.").waitFor();
  await isFocused("Edit");
  await keyboard.press("Enter");
  await isFocused("Name");
  await keyboard.type("not kept");
  await keyboard.press("Escape");
  await isFocused("Edit");

  // Edits what someone else has changed meanwhile.
  await keyboard.press("Enter");
  await isFocused("Name");
  await send("PUT", "plants/1", '{"name":"Rosa rugosa","tag":"Rosaceae"}');
  await keyboard.type("Rosa gallica");
  await keyboard.press("Enter");
  await page.getByText("Someone else has changed this plant").waitFor();
  await press("Take theirs");
  await press("Save");
  await row(page, "1").getByText("Rosa rugosa").waitFor();
  await isFocused("Edit");

  // Deletes it and brings it back.
  await press("Delete");
  await row(page, "1").waitFor({ state: "detached" });
  await isFocused("Undo");
  await keyboard.press("Enter");
  await row(page, "1").waitFor();

  // Opens a plant.
  await press("Rosa rugosa", { key: "Shift+Tab" });
  await isFocused("Close");
  await keyboard.press("Enter");
  await isFocused("Rosa rugosa");

  // Searches, jumps, and filters by tag.
  await tabTo("Search plants", { key: "Shift+Tab" });
  await keyboard.type("alba");
  await eventually(() => ids(page), ["-2"]);
  await keyboard.press("Control+A");
  await keyboard.press("Delete");
  await eventually(() => ids(page), ["-2", "1"]);
  await tabTo("Jump to");
  await keyboard.type("1");
  await keyboard.press("Enter");
  await eventually(() => ids(page), ["1"]);
  await press("First");
  await eventually(() => ids(page), ["-2", "1"]);
  await press("All tags");
  await isFocused("Find a tag");
  await keyboard.type("sal");
  await press("Salicaceae 1");
  await eventually(() => ids(page), ["-2"]);
  await press("Show all tags", { key: "Shift+Tab" });
  await eventually(() => ids(page), ["-2", "1"]);

  // Imports and exports. Playwright takes over file dialogs only while a script waits for one, and to begin that takes a
  // moment. So the wait begins well before the key that opens the dialog.
  const opened = page.waitForEvent("filechooser");
  await press("Import");
  await isFocused("Choose a file, or drop one anywhere on the page");
  await keyboard.press("Enter");
  const chooser = await opened;
  const buffer = Buffer.from("id,name\n5,Acer\n1,Acer\n");
  await chooser.setFiles({ name: "more.csv", mimeType: "text/csv", buffer });
  await page.getByText("a plant with id 1 exists already").waitFor();
  const [failed] = await Promise.all([page.waitForEvent("download"), press("Download the failed rows")]);
  assert.equal(failed.suggestedFilename(), "failed-rows.csv");
  await press("Close");
  await row(page, "5").waitFor();
  await press("Export");
  const [download] = await Promise.all([page.waitForEvent("download"), press("CSV")]);
  assert.equal(download.suggestedFilename(), "plants.csv");

  // Turns pages.
  await store(Array.from({ length: 100 }, (_, index) => `${1000 + index},Plant,`));
  await page.getByText("103 plants").waitFor();
  const hasIds = (count) => eventually(() => ids(page).then((all) => all.length), count);
  await press("Next", { key: "Shift+Tab" });
  await hasIds(3);
  await press("Previous", { key: "Shift+Tab" });
  await hasIds(100);

  await press("Sign out", { key: "Shift+Tab" });
  await isFocused("Token");
});
