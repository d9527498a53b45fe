// What is wrong with the fields of a plant, each as a sentence for the person.

import { sentence } from "./format.js";
import { BLANK, MEMBERS, NOT_AN_ID, parseId } from "./plant.js";
import { RULE_BROKEN } from "./server.js";

/** What can be said before the plant is sent. The server knows the other rules. */
export function mistakesIn({ id, name }) {
  const aboutId = id.trim() === "" ? "Type an id." : NOT_AN_ID;
  return { ...BLANK, id: parseId(id) === null ? aboutId : "", name: name === "" ? "Type a name." : "" };
}

/** What the server says about fields, or null if it says nothing of them. */
export function mistakesOf({ number, message }) {
  if (number !== RULE_BROKEN) return null;
  // The broken rules: "name must …; name must …; tag must …".
  const rules = message.split("; ");
  const about = (field) => rules.filter((rule) => rule.startsWith(`${field} `)).map(sentence).join(" ");
  const mistakes = Object.fromEntries(MEMBERS.map((field) => [field, about(field)]));
  return hasMistakes(mistakes) ? mistakes : null;
}

export const hasMistakes = (mistakes) => Object.values(mistakes).some(Boolean);
