// Counts the plants of a JSON file as its bytes arrive, and keeps the texts of the first ones.

const [BACKSLASH, COMMA, LINE_FEED, QUOTE] = [92, 44, 10, 34];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [91, 93, 123, 125];

// Of ASCII, as the server has it: all but the vertical tab.
const isWhiteSpace = (byte) => byte === 32 || (byte >= 9 && byte <= 13 && byte !== 11);

const textOf = (bytes) => new TextDecoder().decode(new Uint8Array(bytes));

/** Counts rows, and keeps the texts of the first ones. */
class Rows {
  count = 0;
  first = [];
  #kept;
  #bytes = [];

  constructor(kept) {
    this.#kept = kept;
  }

  keep(byte) {
    if (this.count < this.#kept) this.#bytes.push(byte);
  }

  endRow() {
    if (this.count < this.#kept) this.first.push(textOf(this.#bytes));
    this.count++;
    this.dropRow();
  }

  dropRow() {
    this.#bytes = [];
  }
}

/** The lines of NDJSON. A blank line is no row. */
export class LineRows extends Rows {
  #isBlank = true;

  read(bytes) {
    for (const byte of bytes) {
      if (byte === LINE_FEED) this.finish();
      else {
        this.keep(byte);
        this.#isBlank &&= isWhiteSpace(byte);
      }
    }
  }

  finish() {
    if (this.#isBlank) this.dropRow();
    else this.endRow();
    this.#isBlank = true;
  }
}

/** The elements of a JSON array. */
export class ElementRows extends Rows {
  /** How many arrays and objects are open; 1 within the array itself. */
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isInElement = false;

  read(bytes) {
    for (const byte of bytes) {
      if (this.#isInString) this.#readString(byte);
      else this.#readOutsideString(byte);
    }
  }

  finish() {
    if (this.#isInElement) this.endRow();
    this.#isInElement = false;
  }

  #readString(byte) {
    this.keep(byte);
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) this.#isInString = false;
  }

  #readOutsideString(byte) {
    const isOpening = byte === OPEN_ARRAY || byte === OPEN_OBJECT;
    const isClosing = byte === CLOSE_ARRAY || byte === CLOSE_OBJECT;
    const isBetween = this.#depth === 0 || (this.#depth === 1 && (byte === COMMA || isClosing));
    if (isBetween) this.finish();
    else if (!isWhiteSpace(byte)) this.#isInElement = true;
    if (this.#isInElement) this.keep(byte);
    if (byte === QUOTE) this.#isInString = true;
    if (isOpening) this.#depth++;
    if (isClosing) this.#depth--;
  }
}
