// Texts for people.

/** A number with its thousands marked. It may be a text, of any length. */
export const formatCount = (number) => new Intl.NumberFormat("en").format(number);

/** A number of plants. */
export const formatPlants = (number) => `${formatCount(number)} ${String(number) === "1" ? "plant" : "plants"}`;

/** A plant within a sentence, whose direction the name does not change (Unicode's isolates). */
export const formatPlant = ({ id, name }) => `“\u2068${name}\u2069” (${id})`;

/** A message of the server as a sentence for people. */
export const sentence = (message) => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"];

/** The size of a file. */
export function formatBytes(bytes) {
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1);
  const format = { style: "unit", unit: UNITS[power], unitDisplay: power === 0 ? "long" : "short", maximumFractionDigits: 1 };
  return new Intl.NumberFormat("en", format).format(bytes / 1000 ** power);
}

const SECONDS = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]];

/** A number of seconds, in the largest unit that it fills. */
export function formatDuration(seconds) {
  const [unit, size] = SECONDS.find(([, size]) => seconds >= size || size === 1);
  return new Intl.NumberFormat("en", { style: "unit", unit, unitDisplay: "long" }).format(Math.floor(seconds / size));
}

/** A moment that the server has named, in local time. */
export function formatTime(at) {
  return new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" }).format(new Date(at));
}
