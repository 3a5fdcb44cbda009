/** Addresses in plain text. */

export interface LinkPiece {
  text: string;
  href: string;
}

const ADDRESS = /https?:\/\/[^\s<>"'`│|]+/g;
/** What ends a sentence or closes a bracket is no part of the address before it. */
const AFTER = /[.,;:!?…]+$/;

export function linkPieces(text: string): LinkPiece[] {
  const pieces: LinkPiece[] = [];
  let at = 0;
  for (const found of text.matchAll(ADDRESS)) {
    const address = trimmed(found[0]);
    if (!URL.canParse(address)) continue;
    if (found.index > at) pieces.push({ text: text.slice(at, found.index), href: "" });
    pieces.push({ text: address, href: address });
    at = found.index + address.length;
  }
  if (at < text.length) pieces.push({ text: text.slice(at), href: "" });
  return pieces;
}

function trimmed(address: string): string {
  const short = address.replace(AFTER, "");
  const isOpen = short.endsWith(")") && !short.includes("(");
  return isOpen ? trimmed(short.slice(0, -1)) : short;
}
