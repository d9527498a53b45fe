// The page for people: signs in, keeps the list alive, and opens dialogs. `App` holds all state, and every view is a
// function of it: after a change, `changed` renders the page again.

import { html, render } from "./lit-html/lit-html.js";
import { ExportDialog } from "./export_dialog.js";
import { follow } from "./follow.js";
import { ImportDialog } from "./import_dialog.js";
import { addPlant, canonicalId, deletePlant, described, idempotencyKey, readPlant } from "./plants.js";
import { PlantDialog } from "./plant_dialog.js";
import { PlantList } from "./plant_list.js";
import { pageView } from "./page_view.js";
import { ID_TAKEN, Server, keepsIds, pause } from "./server.js";
import { signInView } from "./sign_in.js";
import { TagDialog } from "./tag_dialog.js";

const STORED_TOKEN = "plant-store-token";
// Between two letters of a person who types.
const TYPING_MS = 150;
const FOLLOW_AGAIN_MS = 2000;

class App {
  /** The server with a valid token, what the token may do, and the list; null before the first sign-in. */
  session = null;
  /** Whether a token is asked for, and why. */
  signIn = { isNeeded: true, isChecking: false, message: "" };
  /** The failure that delays requests. */
  trouble = null;
  /** What happened last, and what can be done about it. */
  status = { text: "", action: null };
  dialog = null;
  /** The plants that were deleted here and can come back, the last one at the end. */
  deleted = [];
  searchText = "";

  #isRendering = false;
  #typing = 0;

  changed = () => {
    if (this.#isRendering) return;
    this.#isRendering = true;
    queueMicrotask(() => {
      this.#isRendering = false;
      const { activeElement } = document;
      const dialogs = html`${this.dialog?.view()} ${this.signIn.isNeeded ? signInView(this) : null}`;
      render(html`${pageView(this)} ${dialogs}`, document.body);
      // A dialog is in the document for as long as it is open.
      for (const dialog of document.querySelectorAll("dialog:not([open])")) dialog.showModal();
      // What had the focus is gone, such as the row of a plant that was deleted. The status says why.
      if (!activeElement.isConnected) document.querySelector(".status button")?.focus();
    });
  };

  start() {
    addEventListener("popstate", () => this.session && this.#showAddress());
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", this.#onDrop);
    const token = sessionStorage.getItem(STORED_TOKEN);
    if (token) this.submitToken(token);
    this.changed();
  }

  // Signing in

  async submitToken(token) {
    this.signIn = { isNeeded: true, isChecking: true, message: "" };
    this.changed();
    const server = new Server(token, {
      onRefused: (failure) => this.#tokenEnded(server, failure),
      onTrouble: (failure) => {
        this.trouble = failure;
        this.changed();
      },
    });
    try {
      const { value } = await server.read("token");
      sessionStorage.setItem(STORED_TOKEN, token);
      this.#begin(server, value);
    } catch (failure) {
      this.signIn = { isNeeded: true, isChecking: false, message: failure.message };
    }
    this.changed();
  }

  #begin(server, { name, scope }) {
    this.#end();
    const list = new PlantList(server, this.changed);
    const stop = new AbortController();
    this.session = { server, list, stop, name, mayWrite: scope === "write" };
    this.signIn = { isNeeded: false, isChecking: false, message: "" };
    this.#showAddress();
    this.#follow(server, list, stop.signal);
  }

  async #follow(server, list, signal) {
    while (!signal.aborted) {
      try {
        await follow(server, () => list.refresh(), signal);
      } catch {
        // Nothing is missed: the next round reads the list again.
        await pause(FOLLOW_AGAIN_MS, signal).catch(() => {});
      }
    }
  }

  #end() {
    this.session?.stop.abort();
    this.session?.list.close();
    this.trouble = null;
  }

  /** The page stays as it is below the question for another token, so that nothing that was typed is lost. */
  #tokenEnded(server, failure) {
    if (this.session?.server !== server) return;
    this.#end();
    sessionStorage.removeItem(STORED_TOKEN);
    const message = `The token has ended: ${failure.message}. Sign in again; what you have typed is kept.`;
    this.signIn = { isNeeded: true, isChecking: false, message };
    this.changed();
  }

  signOut = () => {
    this.#end();
    sessionStorage.removeItem(STORED_TOKEN);
    Object.assign(this, { session: null, dialog: null, deleted: [], status: { text: "", action: null } });
    this.signIn = { isNeeded: true, isChecking: false, message: "" };
    this.changed();
  };

  // What is shown. The address of the page has it too, so that a reload and the back button lead there.

  #showAddress() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const get = (name) => parameters.get(name) ?? "";
    const isId = canonicalId(get("after")) === get("after");
    this.searchText = get("name");
    this.session.list.target = null;
    this.session.list.show({ after: isId ? get("after") : null, name: get("name"), tag: get("tag") });
    if (parameters.has("plant")) this.open(get("plant"));
  }

  #setAddress(isNewPlace, plant) {
    const { after, name, tag } = this.session.list.query;
    const parameters = Object.entries({ after, name, tag, plant }).filter(([, value]) => value);
    const hash = `#${new URLSearchParams(parameters)}`;
    if (hash === location.hash) return;
    if (isNewPlace) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  }

  async #go(move) {
    await move(this.session.list);
    if (this.session) this.#setAddress(true);
  }

  show(query) {
    return this.#go((list) => list.show(query));
  }

  turn = (direction) => this.#go((list) => list[direction]());

  async jumpTo(text) {
    const id = canonicalId(text);
    if (id === null || BigInt.asIntN(64, BigInt(id)) !== BigInt(id)) {
      this.announce(`“${text}” is not an id. An id is a whole number.`);
      return;
    }
    this.searchText = "";
    await this.#go((list) => list.jumpTo(id));
    const isThere = this.session.list.plants?.some((plant) => plant.id === id);
    this.announce(isThere ? `Plant ${id} is the first on this page.` : `There is no plant ${id}. The next ones are shown.`);
    document.querySelector(".target")?.scrollIntoView({ block: "nearest" });
  }

  search = (text) => {
    this.searchText = text;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => {
      if (!this.session) return;
      this.session.list.target = null;
      this.session.list.show({ name: text, after: null });
      this.#setAddress(false);
    }, TYPING_MS);
  };

  clearFilter = () => {
    this.searchText = "";
    this.show({ name: "", tag: "", after: null });
  };

  // Dialogs

  openDialog(dialog) {
    this.dialog = dialog;
    this.changed();
  }

  closeDialog(dialog) {
    if (this.dialog !== dialog) return;
    // Gives the focus back to where it was.
    document.querySelector("dialog[open]:not(.sign-in)")?.close();
    this.dialog = null;
    if (this.session) this.#setAddress(false);
    this.changed();
  }

  add = () => this.openDialog(new PlantDialog(this, null, true));
  importFile = () => this.openDialog(new ImportDialog(this));
  exportAll = () => this.openDialog(new ExportDialog(this));
  chooseTag = () => this.openDialog(new TagDialog(this));

  /** Opens the plant with this id, to read or to edit it. */
  async open(id, isEditing = false) {
    const plant = await this.#attempt((server) => readPlant(server, id));
    if (plant === null) {
      this.announce(`There is no plant ${id} any more.`);
    } else if (plant) {
      this.#setAddress(false, isEditing ? undefined : id);
      this.openDialog(new PlantDialog(this, plant, isEditing));
    }
  }

  #onDrop = (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    const isBusy = this.dialog !== null && !(this.dialog instanceof ImportDialog && this.dialog.progress === null);
    if (!this.session?.mayWrite || this.signIn.isNeeded || isBusy) return;
    if (this.dialog === null) this.importFile();
    this.dialog.start(file);
  };

  // Deleting, and what brings a plant back

  async remove(plant) {
    const isDeleted = await this.#attempt((server) => deletePlant(server, plant));
    if (isDeleted === undefined) return;
    if (isDeleted) {
      this.session.list.drop(plant.id);
      this.deleted.push(plant);
      this.#announceDeleted(`Deleted ${described(plant)}.`);
    } else {
      this.announce(`${described(plant)} has just been changed and was not deleted. Look at it again.`);
    }
    this.session.list.refresh();
  }

  #undo = async () => {
    const plant = this.deleted.pop();
    if (!plant) return;
    const key = idempotencyKey();
    const isBack = await this.#attempt((server) => addPlant(server, plant, key).then(() => true));
    if (isBack) {
      this.#announceDeleted(`${described(plant)} is back.`);
    } else if (this.failureNumber !== ID_TAKEN) {
      this.deleted.push(plant);
    }
    this.session?.list.refresh();
  };

  #announceDeleted(text) {
    this.announce(text, this.deleted.length > 0 ? { label: "Undo", run: this.#undo } : null);
  }

  /** Runs an action on the server. A failure is announced, and the outcome is then undefined. */
  async #attempt(action) {
    try {
      return await action(this.session.server);
    } catch (failure) {
      this.failureNumber = failure.number;
      this.announce(failure.message);
      return undefined;
    }
  }

  announce(text, action = null) {
    this.status = { text, action };
    this.changed();
  }
}

if (keepsIds) new App().start();
else render(html`<p class="old">This page needs a newer browser: this one would round the ids of plants.</p>`, document.body);
