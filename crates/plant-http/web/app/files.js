// Files that come in and go out.

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

/** The texts of these lines of a file, by their numbers. The first line is 1. */
export async function linesOf(file, numbers) {
  const wanted = new Set(numbers);
  const last = Math.max(0, ...numbers);
  const texts = new Map();
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let number = 1;
  let rest = "";
  while (number <= last) {
    const { value, done } = await reader.read();
    const lines = (rest + (done ? "\n" : value)).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (wanted.has(number)) texts.set(number, line.replace(/\r$/, ""));
      number++;
    }
    if (done) break;
  }
  await reader.cancel();
  return texts;
}

/** Rows as CSV (RFC 4180). */
export function csvOf(rows) {
  const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
