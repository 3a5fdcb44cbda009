/** Markdown as tokens. They are drawn as elements, one by one: what a model wrote never becomes live HTML. */

import { Lexer, type Token } from "marked";

export type { Token, Tokens } from "marked";

const OPTIONS = { gfm: true, breaks: false };

export function blocksOf(text: string): Token[] {
  return new Lexer(OPTIONS).lex(text);
}

/** Addresses that may be followed from a text; everything else is shown as it is written. */
export function safeAddress(href: string): string | null {
  const trimmed = href.trim();
  return /^(https?:\/\/|mailto:)/i.test(trimmed) ? trimmed : null;
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
