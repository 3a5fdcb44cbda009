/** A prompt as it was put together: what was typed, and what was attached. */

import type { PlainBlock } from "../api/types";

/** How the server puts a text that was uploaded into a message. */
const UPLOADED = /^--- (.+), uploaded ---\n/;

export function uploadedText(text: string): { name: string; content: string } | null {
  const found = UPLOADED.exec(text);
  return found ? { name: found[1] ?? "", content: text.slice(found[0].length) } : null;
}

/** The beginning of a prompt, as lists have it, without what was attached. */
export function withoutUploads(preview: string): string {
  const found = /--- (.+?), uploaded ---/.exec(preview);
  return found ? preview.slice(0, found.index).trim() || (found[1] ?? "") : preview;
}

export function typedText(content: readonly PlainBlock[]): string {
  return content.flatMap((one) => (one.type === "text" && !uploadedText(one.text) ? [one.text] : [])).join("\n");
}

export function attachedParts(content: readonly PlainBlock[]): { name: string; block: PlainBlock }[] {
  return content.flatMap((block): { name: string; block: PlainBlock }[] => {
    if (block.type === "text") {
      const uploaded = uploadedText(block.text);
      return uploaded ? [{ name: uploaded.name, block }] : [];
    }
    return [{ name: (block.type === "file" && block.name) || block.media_type, block }];
  });
}
