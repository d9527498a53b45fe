// Texts for people.

/** A number with its thousands marked. It may be a text, of any length. */
export const formatCount = (number) => new Intl.NumberFormat("en").format(number);

/** A number of plants. */
export const formatPlants = (number) => `${formatCount(number)} ${String(number) === "1" ? "plant" : "plants"}`;

/** A plant within a sentence, whose direction the name does not change (Unicode's isolates). */
export const formatPlant = ({ id, name }) => `“\u2068${name}\u2069” (${id})`;
