/** Markdown as tokens. Components render them as elements: the text of a model never becomes HTML. */

import { type Token, Lexer } from "marked";

export type { Token, Tokens } from "marked";

const OPTIONS = { gfm: true, breaks: false };

export function parseMarkdown(text: string): Token[] {
  return new Lexer(OPTIONS).lex(text);
}

const NAMED: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  copy: "©",
  rarr: "→",
  larr: "←",
};

export function decodeEntities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]+));/g, (whole, decimal, hex, name) => {
    if (name) return NAMED[name as string] ?? whole;
    const point = decimal ? Number(decimal) : Number.parseInt(hex as string, 16);
    return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}
