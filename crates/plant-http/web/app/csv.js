// CSV (RFC 4180): counting the rows of a file, and writing rows.

const [LINE_FEED, CARRIAGE_RETURN, QUOTE, COMMA] = [10, 13, 34, 44];

// Where in a record the next byte is. After a quote within a quoted cell is the cell's end, or the first half of a doubled
// quote.
const [CELL_START, UNQUOTED, QUOTED, AFTER_QUOTE] = [0, 1, 2, 3];

/** Counts the records of a file as its bytes arrive, and keeps the cells of the first ones. A blank line is no record. */
export class CsvRecords {
  count = 0;
  /** The cells of the first records, as texts. */
  first = [];
  #kept;
  #place = CELL_START;
  #isBlank = true;
  #cells = [];
  #cell = [];

  constructor(kept) {
    this.#kept = kept;
  }

  read(bytes) {
    for (const byte of bytes) {
      const isLineEnd = (byte === LINE_FEED || byte === CARRIAGE_RETURN) && this.#place !== QUOTED;
      if (!isLineEnd) this.#readByte(byte);
      else if (!this.#isBlank) this.#endRecord();
    }
  }

  finish() {
    if (!this.#isBlank) this.#endRecord();
  }

  #readByte(byte) {
    this.#isBlank = false;
    if (byte === QUOTE && this.#place === QUOTED) this.#place = AFTER_QUOTE;
    else if (byte === QUOTE && this.#place === CELL_START) this.#place = QUOTED;
    else if (byte === COMMA && this.#place !== QUOTED) this.#endCell();
    else {
      // After a quote, only a second one goes on with the quoted cell.
      if (this.#place === AFTER_QUOTE && byte === QUOTE) this.#place = QUOTED;
      else if (this.#place !== QUOTED) this.#place = UNQUOTED;
      if (this.count < this.#kept) this.#cell.push(byte);
    }
  }

  #endCell() {
    this.#place = CELL_START;
    if (this.count >= this.#kept) return;
    this.#cells.push(new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(this.#cell)));
    this.#cell = [];
  }

  #endRecord() {
    this.#endCell();
    if (this.count < this.#kept) this.first.push(this.#cells);
    this.count++;
    this.#cells = [];
    this.#isBlank = true;
  }
}

// What a spreadsheet takes for a formula, at the beginning of a cell or behind a semicolon, also within a quoted cell. The
// export for spreadsheets guards against the same.
const FORMULA = /(^|;)(?=[\t\r\n]|[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20])/g;

/** Rows as CSV (RFC 4180). A spreadsheet takes no cell for a formula (OWASP, "CSV Injection"). */
export function csvOf(rows) {
  const cell = (text) => {
    const safe = String(text).replaceAll(FORMULA, "$1'");
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
