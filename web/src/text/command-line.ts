/** A command line as words; no shell reads it, so only quotes mean something. */

export function wordsOf(line: string): string[] {
  const words: string[] = [];
  const piece = /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|(\s+)|([^\s'"\\]+)|./gsu;
  let word: string | null = null;
  for (const [whole, single, double, escaped, space] of line.matchAll(piece)) {
    if (space !== undefined) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + (single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? escaped ?? whole);
  }
  if (word !== null) words.push(word);
  return words;
}
