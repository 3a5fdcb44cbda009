/** Links in texts that models and tools wrote. */

/** The address, if it is safe to follow; else null. */
export function safeAddress(href: string): string | null {
  const address = href.trim();
  return /^(https?:\/\/|mailto:)/i.test(address) ? address : null;
}

export interface TextSpan {
  text: string;
  href: string;
}

const ADDRESS = /https?:\/\/[^\s<>"'`│|]+/g;
/** Punctuation after an address is not part of it. */
const PUNCTUATION = /[.,;:!?…]+$/;

/** Plain text as spans; links have an `href`. */
export function splitLinks(text: string): TextSpan[] {
  const spans: TextSpan[] = [];
  let at = 0;
  for (const match of text.matchAll(ADDRESS)) {
    const address = trimmed(match[0]);
    if (!URL.canParse(address)) continue;
    if (match.index > at) spans.push({ text: text.slice(at, match.index), href: "" });
    spans.push({ text: address, href: address });
    at = match.index + address.length;
  }
  if (at < text.length) spans.push({ text: text.slice(at), href: "" });
  return spans;
}

function trimmed(address: string): string {
  const short = address.replace(PUNCTUATION, "");
  const isOpen = short.endsWith(")") && !short.includes("(");
  return isOpen ? trimmed(short.slice(0, -1)) : short;
}
