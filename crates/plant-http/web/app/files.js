// Files that come in and go out.

// The server takes no longer row.
const ROW_MAX_CHARACTERS = 65_536;

/** Hands a file to the person, as a download. */
export function saveFile(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser begins to read it soon.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The media type of a file with plants, by its first character that is not white space. */
export async function mediaTypeOf(file) {
  const start = (await file.slice(0, 4096).text()).trimStart();
  if (start.startsWith("[")) return "application/json";
  return start.startsWith("{") ? "application/x-ndjson" : "text/csv";
}

/**
 * The texts of the rows that begin in these lines of a file, by the number of the line; the first line is 1. A row of CSV
 * goes on until its quotes are closed. Rows of an array are not told apart, so there are no texts.
 */
export async function rowsAt(file, lineNumbers) {
  const mediaType = await mediaTypeOf(file);
  const rows = new Map(mediaType === "application/json" ? [] : lineNumbers.map((number) => [number, ""]));
  const isOpen = (row) => mediaType === "text/csv" && row.split('"').length % 2 === 0 && row.length < ROW_MAX_CHARACTERS;
  let begun = null;
  const lineEnd = mediaType === "text/csv" ? /\r\n|\r|\n/ : /\r?\n/;
  await eachLine(file, lineEnd, Math.max(0, ...rows.keys()), (line, number) => {
    if (begun !== null) rows.set(begun, `${rows.get(begun)}\n${line}`);
    else if (rows.has(number)) rows.set((begun = number), line);
    if (begun !== null && !isOpen(rows.get(begun))) begun = null;
    return begun !== null;
  });
  return rows;
}

/** Calls `onLine` for the lines up to number `last`, and for further ones while it returns true. */
async function eachLine(file, lineEnd, last, onLine) {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let number = 1;
  let rest = "";
  for (let goesOn = last > 0, isEnd = false; goesOn && !isEnd; ) {
    const { value, done } = await reader.read();
    isEnd = done;
    const text = rest + (done ? "\n" : value);
    // A line feed may follow in the next part.
    const held = text.endsWith("\r") ? "\r" : "";
    const lines = text.slice(0, text.length - held.length).split(lineEnd);
    rest = lines.pop() + held;
    for (const line of lines) {
      if (goesOn) goesOn = onLine(line, number) || number < last;
      number++;
    }
  }
  await reader.cancel();
}
