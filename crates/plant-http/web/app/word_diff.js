// Compares two texts word by word.

import { html } from "./lit-html/lit-html.js";

/** The words of a text, each with the white space around it. */
const wordsOf = (text) => text.match(/\s*\S+(\s+$)?/g) ?? [];

const isSameWord = (one, other) => one.trim() === other.trim();

/** Both texts in parts, each with what stands `before` and `after`. Every other part `isCommon`: both have its words. */
export function compareWords(oneText, otherText) {
  const [one, other] = [wordsOf(oneText), wordsOf(otherText)];
  // The length of the longest common subsequence of the words from `i` and from `j` on.
  const lengths = Array.from({ length: one.length + 1 }, () => new Array(other.length + 1).fill(0));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      const longer = Math.max(lengths[i + 1][j], lengths[i][j + 1]);
      lengths[i][j] = isSameWord(one[i], other[j]) ? lengths[i + 1][j + 1] + 1 : longer;
    }
  }
  const parts = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && isSameWord(one[i], other[j])) append(parts, true, one[i++], other[j++]);
    else if (j === other.length || (i < one.length && lengths[i + 1][j] >= lengths[i][j + 1])) append(parts, false, one[i++], "");
    else append(parts, false, "", other[j++]);
  }
  return parts;
}

function append(parts, isCommon, before, after) {
  const last = parts.at(-1);
  if (last?.isCommon !== isCommon) return parts.push({ isCommon, before, after });
  last.before += before;
  last.after += after;
}

/** A part as it was, marked if it is not in the other text. */
export const partBefore = ({ isCommon, before }) => (isCommon || !before ? before : html`<del>${before}</del>`);

/** A part as it is now, marked if it is new. */
export const partAfter = ({ isCommon, after }) => (isCommon || !after ? after : html`<ins>${after}</ins>`);

/** What is gone, and what is there now, in one text. */
export const partChanged = (part) => (part.isCommon ? part.after : [partBefore(part), partAfter(part)]);
