/** What a terminal agent draws at this moment, in its place in the conversation. */

import type { AnswerBlock, Block } from "./session-view";

/** A live message goes on with what the agent said last, or begins anew behind what it was told since. */
export function withDrawing(blocks: Block[], value: unknown): Block[] {
  const text = (value as { text?: string } | undefined)?.text;
  if (!text) return blocks;
  const at = blocks.findLastIndex((block) => block.kind === "user" || block.kind === "text");
  const last = blocks[at];
  if (last?.kind === "text") return blocks.with(at, { ...last, text, writing: true });
  const drawn: AnswerBlock = {
    key: "drawing",
    anchor: 0,
    time: "",
    kind: "text",
    seq: 0,
    message: "",
    text,
    points: 0,
    writing: true,
    drawn: true,
  };
  return [...blocks, drawn];
}
