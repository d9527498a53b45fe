// One whole pass by keyboard alone, through every dialog; and the shortcuts.

"use strict";

const { assert, eventually, ids, inBrowser, row, send, status, store, PLANTS_TOKEN } = require("../harness.js");

// More than there are stops on the page: of the plants, only one row has some.
const MOST_STOPS = 30;

inBrowser(async (browser) => {
  browser.expect(/status of 412/);
  const page = await browser.tab(await browser.person());
  const { keyboard } = page;

  /** The name of what has the focus, as a screen reader says it. */
  const focused = () => page.evaluate(() => {
    const { activeElement } = document;
    const label = activeElement.getAttribute("aria-label") ?? activeElement.labels?.[0]?.textContent;
    return (label ?? activeElement.textContent).trim();
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
    assert.fail(`${name} is not among the stops ${seen.join(" | ")}`);
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

  // Edits one, and gives up on another edit. The Tab key leads to one row, and the arrow keys to the others.
  await keyboard.press("ArrowDown");
  await keyboard.press("Home");
  await isFocused("Salix alba");
  await keyboard.press("ArrowDown");
  await isFocused("Rosa canina");
  await press("Edit");
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
  await isFocused("Keep editing");
  await press("Discard");
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
  // The focus stays among the plants.
  await isFocused("Salix alba");
  await press("Undo");
  await row(page, "1").waitFor();
  await isFocused("Salix alba");
  await keyboard.press("ArrowDown");
  await press("Delete");
  await row(page, "1").waitFor({ state: "detached" });
  await keyboard.press("Control+z");
  await row(page, "1").waitFor();

  // Opens a plant and its history, restores the first version, and undoes that.
  await isFocused("Salix alba");
  await keyboard.press("ArrowDown");
  await isFocused("Rosa rugosa");
  await keyboard.press("Enter");
  await isFocused("Close");
  await press("History", { key: "Shift+Tab" });
  await isFocused("Close");
  await page.getByRole("dialog", { name: "History of plant 1" }).getByRole("listitem").last().waitFor();
  await press("Restore this version", { key: "Shift+Tab" });
  await eventually(() => status(page), "Restored “Rosa canina” (1).");
  await keyboard.press("Control+z");
  await eventually(() => status(page), "“Rosa rugosa” (1) is back.");
  await row(page, "1").getByText("Rosa rugosa").waitFor();
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
  await page.getByRole("dialog").getByRole("listitem").last().waitFor();
  for (const [key, name] of [["ArrowDown", "Rosaceae 1"], ["ArrowDown", "Salicaceae 1"], ["ArrowUp", "Rosaceae 1"]]) {
    await keyboard.press(key);
    await isFocused(name);
  }
  await keyboard.press("ArrowUp");
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
  await page.getByRole("button", { name: "Import 2 plants" }).waitFor();
  await press("Import 2 plants");
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
  await isFocused("Plant");
  await press("Previous", { key: "Shift+Tab" });
  await hasIds(100);

  // Between the plants of a page.
  const isAt = (id) => eventually(() => page.evaluate(() => document.activeElement.closest("tr")?.cells[0].textContent), id);
  await isAt("-2");
  for (const [key, id] of [
    ["ArrowDown", "1"], ["ArrowUp", "-2"], ["ArrowUp", "-2"], ["End", "1096"], ["ArrowDown", "1096"], ["Home", "-2"],
  ]) {
    await keyboard.press(key);
    await isAt(id);
  }
  await keyboard.press("PageDown");
  const screen = await page.evaluate(() => document.activeElement.closest("tr").rowIndex);
  assert.ok(screen > 5 && screen < 50, `Page Down moves by ${screen} rows`);
  await keyboard.press("PageUp");
  await isAt("-2");
  await keyboard.press("Enter");
  await isFocused("Close");
  await keyboard.press("Escape");
  await isAt("-2");

  // Turns pages, searches and adds. The letters are letters where a person types.
  await keyboard.press("n");
  await hasIds(3);
  await isAt("1097");
  await keyboard.press("n");
  await isAt("1097");
  await keyboard.press("p");
  await hasIds(100);
  await isAt("-2");
  await keyboard.press("/");
  await isFocused("Search plants");
  await keyboard.type("?an/");
  await page.getByText("No plants match").waitFor();
  assert.equal(await page.getByLabel("Search plants").inputValue(), "?an/");
  assert.equal(await page.getByRole("dialog").count(), 0);
  await press("Show all plants");
  await hasIds(100);
  await keyboard.press("a");
  await isFocused("Id");
  await keyboard.type("a?/");
  assert.equal(await page.getByRole("dialog").getByLabel("Id").inputValue(), "a?/");
  await keyboard.press("Escape");
  await press("Discard");

  // The list of the shortcuts, where the letters can be turned off.
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).getByText("Next page").waitFor();
  await keyboard.press("n");
  await tabTo("Use single characters as shortcuts", { key: "Shift+Tab" });
  await keyboard.press("Space");
  await keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await keyboard.press("a");
  await keyboard.press("?");
  await keyboard.press("ArrowDown");
  assert.equal(await page.getByRole("dialog").count(), 0, "a letter is a shortcut after it was turned off");
  assert.equal(await page.getByRole("button", { name: "Add plant" }).getAttribute("aria-keyshortcuts"), null);
  await press("Keys", { key: "Shift+Tab" });
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await tabTo("Use single characters as shortcuts", { key: "Shift+Tab" });
  await keyboard.press("Space");
  await keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });

  await press("Webhooks", { key: "Shift+Tab" });
  await isFocused("Close");
  await tabTo("Refresh", { key: "Shift+Tab" });
  await keyboard.press("Escape");
  await isFocused("Webhooks");

  // The menu of a phone.
  await page.setViewportSize({ width: 390, height: 800 });
  await press("More");
  await page.locator(":popover-open").waitFor();
  await keyboard.press("Escape");
  await page.locator(":popover-open").waitFor({ state: "detached" });
  await isFocused("More");
  await keyboard.press("Enter");
  await press("Sign out");
  await isFocused("Token");
});
