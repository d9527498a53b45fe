// The app: who is signed in, what is shown, which dialog is open, and what happened last. Views read this state, and
// `draw` renders them again.

import { html, render } from "./lit-html/lit-html.js";
import { ActiveRow, focusActiveRow } from "./active_row.js";
import { readAddress, writeAddress } from "./address.js";
import { Changes } from "./changes.js";
import { ExportDialog } from "./export_dialog.js";
import { formatPlant, sentence } from "./format.js";
import { HistoryDialog } from "./history_dialog.js";
import { ImportDialog } from "./import_dialog.js";
import { pressKey } from "./keys.js";
import { KeysDialog } from "./keys_dialog.js";
import { positionBefore } from "./keyset.js";
import { layout } from "./layout.js";
import { NOT_AN_ID, parseId, readPlant } from "./plant.js";
import { PlantDialog } from "./plant_dialog.js";
import { onScreenChange } from "./screen.js";
import { Failure } from "./server.js";
import { Session } from "./session.js";
import { signInView } from "./sign_in.js";
import { TagDialog } from "./tag_dialog.js";
import { Toasts } from "./toasts.js";
import { WebhooksDialog } from "./webhooks_dialog.js";

const STORED_TOKEN = "plant-store-token";

// A search begins when a person has typed no letter for so long.
const TYPING_MS = 150;

const hasFiles = (event) => event.dataTransfer.types.includes("Files");

export class App {
  /** Null before the first sign-in. A session that has ended stays behind the sign-in dialog. */
  session = null;
  /** Whether a token is being checked, and why it is asked for; null while nobody needs to sign in. */
  signIn = { isChecking: false, message: "" };
  dialog = null;
  searchText = "";
  activeRow = new ActiveRow();
  toasts = new Toasts(() => this.draw());
  changes = new Changes(this);

  #checkedSession = null;
  #isRenderQueued = false;
  #typing = 0;

  start() {
    addEventListener("popstate", () => this.signIn === null && this.#showAddress());
    // Otherwise the browser would open a file that is dropped, and leave the page.
    addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
    addEventListener("drop", (event) => hasFiles(event) && this.#drop(event));
    addEventListener("keydown", (event) => pressKey(this, event));
    onScreenChange(() => {
      // A page on a phone has fewer plants.
      this.session?.list.refresh();
      this.draw();
    });
    const token = sessionStorage.getItem(STORED_TOKEN);
    if (token) this.submitToken(token);
    this.draw();
  }

  /** Renders the page again, once for all changes of this task. */
  draw = () => {
    if (this.#isRenderQueued) return;
    this.#isRenderQueued = true;
    queueMicrotask(() => this.#render());
  };

  #render() {
    this.#isRenderQueued = false;
    const { activeElement } = document;
    render(html`${layout(this)} ${this.dialog?.view()} ${this.signIn && signInView(this)}`, document.body);
    // A dialog is in the document for as long as it is open.
    for (const dialog of document.querySelectorAll("dialog:not([open])")) dialog.showModal();
    if (!activeElement.isConnected) this.#focusInstead();
  }

  /** What had the focus is gone: a part of a dialog, a row that someone deleted, or a button that was pressed. */
  #focusInstead() {
    const dialog = [...document.querySelectorAll("dialog")].at(-1);
    if (dialog) (dialog.querySelector("[autofocus]") ?? dialog.querySelector("button")).focus();
    else if (!focusActiveRow({ preventScroll: true })) document.querySelector("main").focus();
  }

  /** The failure that delays requests, or null. */
  get trouble() {
    return (this.#checkedSession ?? this.session)?.server.trouble ?? null;
  }

  // Signing in and out

  async submitToken(token) {
    if (!/^[\x21-\x7e]+$/.test(token)) {
      return this.#askForToken("A token consists of visible ASCII characters, without spaces.");
    }
    this.#checkedSession?.end(new Failure("another token is being checked"));
    const session = new Session(token, {
      onChange: this.draw,
      onRefused: () => session === this.session && this.#tokenEnded(),
    });
    this.#checkedSession = session;
    this.signIn = { isChecking: true, message: "" };
    this.draw();
    let message = "";
    try {
      await session.open();
    } catch (failure) {
      message = sentence(failure.message);
    }
    // Another token was submitted in the meantime.
    if (this.#checkedSession !== session) return;
    this.#checkedSession = null;
    if (message) this.#askForToken(message);
    else this.#begin(session, token);
  }

  #askForToken(message) {
    this.signIn = { isChecking: false, message };
    this.draw();
  }

  #begin(session, token) {
    sessionStorage.setItem(STORED_TOKEN, token);
    this.session = session;
    this.signIn = null;
    session.follow();
    this.#showAddress();
  }

  /** The page stays as it is below the sign-in dialog, so that nothing that was typed is lost. */
  #tokenEnded() {
    sessionStorage.removeItem(STORED_TOKEN);
    this.#askForToken("The token has ended: it has expired, or was revoked. Sign in again; what you have typed is kept.");
  }

  signOut = () => {
    this.session.end(new Failure("you have signed out"));
    sessionStorage.removeItem(STORED_TOKEN);
    history.replaceState(null, "", location.pathname);
    this.toasts.clear();
    Object.assign(this, { session: null, dialog: null, searchText: "" });
    this.#askForToken("");
  };

  // What is shown

  #showAddress() {
    const { query, rank, plant, history } = readAddress();
    clearTimeout(this.#typing);
    this.searchText = query.name;
    this.activeRow.reset();
    this.session.list.show(query, { rank });
    if (this.dialog !== null) return;
    if (plant !== null) this.open(plant);
    else if (history !== null) this.openHistory(history);
  }

  /** Moves the list, and notes the new place in the address. Returns whether the list is there. */
  async #navigate(move) {
    clearTimeout(this.#typing);
    const { session } = this;
    this.activeRow.reset();
    const isThere = await move();
    if (!isThere || session !== this.session) return false;
    writeAddress(session.list, {}, { isNewPlace: true });
    document.querySelector("main").scrollTo({ top: 0 });
    return true;
  }

  /** Turns to the page that is `first`, `previous` or `next`, if there is one. */
  async turnPage(to) {
    const { list } = this.session;
    if (!list.canTurn(to)) return;
    const isTurned = await this.#navigate(() => list.turn(to));
    // Otherwise the focus may be below the plants, and out of sight, or on a button that is disabled now.
    if (isTurned && !document.activeElement.matches(".place button:enabled")) focusActiveRow();
  }

  show(query, options) {
    this.searchText = query.name ?? this.session.list.query.name;
    return this.#navigate(() => this.session.list.show(query, options));
  }

  /** Notes the row that has the focus. */
  activate(id, index) {
    this.activeRow.set(id, index);
    this.draw();
  }

  showAll = () => this.show({ after: null, name: "", tag: "" });

  search(text) {
    this.searchText = text;
    this.draw();
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => {
      if (!this.session) return;
      const { list } = this.session;
      this.activeRow.reset();
      const isNewPlace = list.query.name === "";
      list.show({ after: null, name: text });
      writeAddress(list, {}, { isNewPlace });
    }, TYPING_MS);
  }

  async jumpTo(text) {
    const id = parseId(text);
    if (id === null) return this.announce(NOT_AN_ID);
    const { list } = this.session;
    const cleared = list.query.name || list.query.tag ? " The search was cleared." : "";
    const isShown = await this.show({ after: positionBefore(id), name: "", tag: "" }, { target: id });
    if (!isShown) return;
    if (list.plants.length === 0) this.announce(`No more plants after ${id}.${cleared}`, [this.historyAction(id)]);
    else if (list.plants[0].id === id) this.announce(`Plant ${id} is the first on this page.${cleared}`);
    else this.#announceMissing(id, ` The next ones are shown.${cleared}`);
  }

  // Dialogs

  #openDialog(dialog) {
    this.dialog = dialog;
    this.draw();
  }

  closeDialog(dialog) {
    if (this.dialog !== dialog) return;
    this.dialog = null;
    dialog.stop?.abort();
    // Gives the focus back to where it was.
    document.querySelector("dialog[open]:not(.sign-in)")?.close();
    writeAddress(this.session.list, {}, { isNewPlace: false });
    this.draw();
  }

  add = () => this.#openDialog(new PlantDialog(this, null, { isEditing: true }));
  importFile = () => this.#openDialog(new ImportDialog(this));
  exportAll = () => this.#openDialog(new ExportDialog(this));
  chooseTag = () => this.#openDialog(new TagDialog(this));
  showKeys = () => this.#openDialog(new KeysDialog(this));
  showWebhooks = () => this.#openDialog(new WebhooksDialog(this));

  /** Opens the plant with this id, to read or to edit it. */
  async open(id, { isEditing = false } = {}) {
    const { dialog } = this;
    const { server, list } = this.session;
    try {
      const plant = await readPlant(server, id);
      // The person has opened something else while the server was busy.
      if (this.dialog !== dialog) return;
      if (plant.isGone) return this.#announceMissing(id);
      writeAddress(list, isEditing ? {} : { plant: id }, { isNewPlace: false });
      this.#openDialog(new PlantDialog(this, plant, { isEditing }));
    } catch (failure) {
      this.announceFailure(server, failure);
    }
  }

  /** Opens what happened to the plant with this id, which may be deleted. */
  openHistory(id) {
    writeAddress(this.session.list, { history: id }, { isNewPlace: false });
    this.#openDialog(new HistoryDialog(this, id));
  }

  /** Lets the person choose between a version to restore and what someone else has stored meanwhile. */
  openConflict(version, theirs) {
    if (this.dialog === null) this.#openDialog(new PlantDialog(this, version, { isEditing: true, theirs }));
    else this.announce(`${formatPlant(version)} was not restored: someone else has just changed it.`);
  }

  #drop(event) {
    event.preventDefault();
    const { files } = event.dataTransfer;
    if (this.signIn !== null) return;
    if (!this.session.mayWrite) return this.announce("This token is read-only: it may not import.");
    if (files.length !== 1) return this.announce("Drop one file at a time.");
    if (this.dialog === null) this.importFile();
    if (this.dialog instanceof ImportDialog && !this.dialog.isBusy) this.dialog.choose(files[0]);
  }

  // What happened

  /** Returns the toast. The `actions` are what can be done about it, each with `label` and `run`. */
  announce(text, actions = []) {
    return this.toasts.add(text, actions);
  }

  /** What leads to the history of a plant, also of one that is gone. */
  historyAction = (id) => ({ label: "History", run: () => this.openHistory(id) });

  #announceMissing(id, more = "") {
    this.announce(`There is no plant ${id}.${more}`, [this.historyAction(id)]);
  }

  announceFailure(server, failure) {
    // The end of a session is announced once, and not by each of its requests.
    if (!server.signal.aborted) this.announce(sentence(failure.message));
  }
}
