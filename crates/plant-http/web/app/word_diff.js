// Compares two texts word by word.

const segmenter = new Intl.Segmenter("en", { granularity: "word" });

const wordsOf = (text) => [...segmenter.segment(text)].map(({ segment }) => segment);

/**
 * Both texts in parts, each with whether the other text has the part too. White space between two words that differ differs
 * with them.
 */
export function compareWords(oneText, otherText) {
  const [one, other] = [wordsOf(oneText), wordsOf(otherText)];
  // The length of the longest common subsequence of the words from `i` and from `j` on.
  const lengths = Array.from({ length: one.length + 1 }, () => new Array(other.length + 1).fill(0));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      const longer = Math.max(lengths[i + 1][j], lengths[i][j + 1]);
      lengths[i][j] = one[i] === other[j] ? lengths[i + 1][j + 1] + 1 : longer;
    }
  }
  const parts = [[], []];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    if (i < one.length && one[i] === other[j]) {
      append(parts[0], one[i++], true);
      append(parts[1], other[j++], true);
    } else if (j === other.length || (i < one.length && lengths[i + 1][j] >= lengths[i][j + 1])) {
      append(parts[0], one[i++], false);
    } else {
      append(parts[1], other[j++], false);
    }
  }
  return parts.map(withSpaces);
}

function withSpaces(parts) {
  const joined = [];
  // Every other part differs.
  const isBetween = (index) => index > 0 && index < parts.length - 1;
  parts.forEach(({ text, isCommon }, index) => append(joined, text, isCommon && !(isBetween(index) && text.trim() === "")));
  return joined;
}

function append(parts, word, isCommon) {
  const last = parts.at(-1);
  if (last?.isCommon === isCommon) last.text += word;
  else parts.push({ text: word, isCommon });
}
