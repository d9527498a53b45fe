// Two people edit one plant. The second one sees both versions, and loses nothing.

"use strict";

const { assert, eventually, inBrowser, press, row, send, status, store } = require("../harness.js");

inBrowser(async (browser) => {
  browser.expect(/status of (400|412)/);
  browser.expect(/status of 404/);
  await store(["1,Rosa,Rosaceae", "2,Salix,", "3,Acer,Sapindaceae"]);
  const one = await browser.signedIn();
  const other = await browser.signedIn();
  const edit = async (page, id) => {
    await row(page, id).getByRole("button", { name: "Edit" }).click();
    await page.getByRole("dialog").getByLabel("Name").waitFor();
  };
  const save = (page) => press(page, "Save");
  const fill = (page, label, text) => page.getByRole("dialog").getByLabel(label).fill(text);
  const isStored = async (id, json) => assert.equal((await send("GET", `plants/${id}`)).text, json);

  // Both begin from the same plant.
  const bothEdit = async (id) => {
    await edit(one, id);
    await edit(other, id);
    await fill(one, "Name", `One's ${id}`);
    await fill(one, "Tag", "One");
    await fill(other, "Name", `Other's ${id}`);
    await save(one);
    await eventually(() => status(one), `Saved “One's ${id}” (${id}).`);
    await save(other);
    await other.getByRole("dialog").getByRole("alert").getByText("Someone else has changed").waitFor();
    const conflict = other.getByRole("region", { name: "Both versions" });
    for (const [title, name] of [["Stored now", `One's ${id}`], ["Yours", `Other's ${id}`]]) {
      const version = conflict.locator("div > div").filter({ hasText: title });
      await version.getByText(name).waitFor();
    }
    await isStored(id, `{"id":${id},"name":"One's ${id}","tag":"One"}`);
  };

  // Keeps the own version, changed once more.
  // The words that differ are marked, in the roles of a deletion and an insertion.
  await bothEdit("1");
  const marked = async (role) => (await other.getByRole("dialog").getByRole(role).allTextContents()).join(" ");
  assert.equal(await marked("deletion"), "One's One");
  assert.equal(await marked("insertion"), "Other's Rosaceae");
  // The Enter key does not overwrite, and the button that does is not the primary one.
  await other.getByRole("dialog").getByLabel("Name").press("Enter");
  await fill(other, "Tag", "Both");
  await isStored("1", `{"id":1,"name":"One's 1","tag":"One"}`);
  assert.equal(await other.locator("dialog .primary").count(), 0);
  await press(other, "Overwrite with mine");
  await eventually(() => status(other), "Saved “Other's 1” (1).");
  await isStored("1", '{"id":1,"name":"Other\'s 1","tag":"Both"}');

  // Takes the version of the other one.
  await bothEdit("2");
  await press(other, "Take theirs");
  assert.equal(await other.getByRole("dialog").getByLabel("Name").inputValue(), "One's 2");
  assert.equal(await other.getByRole("dialog").getByLabel("Tag").inputValue(), "One");
  await save(other);
  await eventually(() => status(other), "Saved “One's 2” (2).");
  await isStored("2", '{"id":2,"name":"One\'s 2","tag":"One"}');

  // Edits what the other one deletes.
  await edit(other, "3");
  await fill(other, "Name", "Acer campestre");
  await row(one, "3").getByRole("button", { name: "Delete" }).click();
  await eventually(() => status(one), "Deleted “Acer” (3).");
  await save(other);
  await other.getByText("Someone else has deleted this plant. “Add it again” stores it as you have typed it").waitFor();
  await press(other, "Add it again");
  await row(one, "3").getByText("Acer campestre").waitFor();
  await isStored("3", '{"id":3,"name":"Acer campestre","tag":"Sapindaceae"}');

  // The other one deletes it, and adds it again with another name.
  await edit(other, "3");
  await fill(other, "Name", "Acer negundo");
  await send("DELETE", "plants/3");
  await save(other);
  await other.getByText("Someone else has deleted this plant. “Add it again” stores it as you have typed it").waitFor();
  await send("PUT", "plants/3", '{"name":"Acer rubrum"}');
  await press(other, "Add it again");
  await other.getByRole("dialog").getByText("Acer rubrum").waitFor();
  await press(other, "Overwrite with mine");
  await row(one, "3").getByText("Acer negundo").waitFor();

  // Deletes what has just been changed, before the change is on the screen.
  await one.route(/events|plants\?/, (route) => route.abort());
  browser.expect(/ERR_FAILED/);
  await send("PUT", "plants/3", '{"name":"Acer platanoides"}');
  await row(one, "3").getByRole("button", { name: "Delete" }).click();
  await eventually(() => status(one), "“Acer negundo” (3) has just been changed and was not deleted. Look at it again.");
  await isStored("3", '{"id":3,"name":"Acer platanoides"}');
});
