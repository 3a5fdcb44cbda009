/** What people type: prompts and their attachments, slash commands, mentions of files, command lines. */

import type { Command, PlainBlock } from "../api/types";

/** The line above an uploaded text in a message. */
const UPLOADED = /^--- (.+), uploaded ---\n/;

export function parseUpload(text: string): { name: string; content: string } | null {
  const match = UPLOADED.exec(text);
  return match ? { name: match[1] ?? "", content: text.slice(match[0].length) } : null;
}

/** The preview of a prompt in a list, without its attachments. */
export function previewText(preview: string): string {
  const match = /--- (.+?), uploaded ---/.exec(preview);
  return match ? preview.slice(0, match.index).trim() || (match[1] ?? "") : preview;
}

export function promptText(content: readonly PlainBlock[]): string {
  return content.flatMap((block) => (block.type === "text" && !parseUpload(block.text) ? [block.text] : [])).join("\n");
}

export function promptAttachments(content: readonly PlainBlock[]): { name: string; block: PlainBlock }[] {
  return content.flatMap((block): { name: string; block: PlainBlock }[] => {
    if (block.type === "text") {
      const upload = parseUpload(block.text);
      return upload ? [{ name: upload.name, block }] : [];
    }
    return [{ name: (block.type === "file" && block.name) || block.media_type, block }];
  });
}

/** The commands that the page itself runs. */
export const PAGE_COMMANDS: Command[] = [
  { name: "model", description: "Choose the model", kind: "page" },
  { name: "compact", description: "Summarise earlier messages", kind: "page", arguments: "[instructions]" },
  { name: "rename", description: "Rename this session", kind: "page", arguments: "title" },
  { name: "fork", description: "Continue in a copy of this session", kind: "page" },
  { name: "tree", description: "Show the branches of this session", kind: "page" },
  { name: "context", description: "Show what the model receives", kind: "page" },
  { name: "new", description: "Start a new session", kind: "page" },
  { name: "help", description: "Show keyboard shortcuts", kind: "page" },
];

/** The commands for a partly typed one: those that start with it, then those that contain it. */
export function matchingCommands(text: string, commands: readonly Command[]): Command[] {
  const typed = /^\/(\S*)$/.exec(text)?.[1]?.toLowerCase();
  if (typed === undefined) return [];
  const names = new Set(commands.map((command) => command.name));
  const all = [...commands, ...PAGE_COMMANDS.filter((command) => !names.has(command.name))];
  const first = all.filter((command) => command.name.toLowerCase().startsWith(typed));
  const others = all.filter((command) => !first.includes(command) && command.name.toLowerCase().includes(typed));
  return [...first, ...others].slice(0, 12);
}

/** The command in a text and its arguments; null if there is none. */
export function parseCommand(text: string, commands: readonly Command[]): { command: Command; rest: string } | null {
  const match = /^\/(\S+)(?:\s+([\s\S]*))?$/.exec(text.trim());
  if (!match) return null;
  const command = [...commands, ...PAGE_COMMANDS].find((other) => other.name === match[1]);
  return command ? { command, rest: (match[2] ?? "").trim() } : null;
}

export interface Suggestion {
  label: string;
  hint: string;
  description: string;
  badge: string;
  /** The whole text and the caret after the suggestion is accepted. */
  text: string;
  caret: number;
}

export function commandSuggestions(text: string, commands: readonly Command[]): Suggestion[] {
  return matchingCommands(text, commands).map((command) => ({
    label: `/${command.name}`,
    hint: command.arguments ?? "",
    description: command.description ?? "",
    badge: command.kind === "page" ? "" : (command.kind ?? ""),
    text: `/${command.name} `,
    caret: command.name.length + 2,
  }));
}

/** The mention that ends at the caret: where it starts, and what is typed of it. */
export function mentionBefore(text: string, caret: number): { start: number; letters: string } | null {
  const match = /(?:^|[\s(])@("?)([^\s"]*)$/.exec(text.slice(0, caret));
  if (!match) return null;
  const letters = match[2] ?? "";
  return { start: caret - letters.length - (match[1]?.length ?? 0) - 1, letters };
}

export function insertMention(text: string, start: number, caret: number, mention: string): { text: string; caret: number } {
  const isFolder = mention.endsWith("/");
  const inserted = isFolder ? mention : `${mention} `;
  return { text: text.slice(0, start) + inserted + text.slice(caret).replace(/^ /, isFolder ? " " : ""), caret: start + inserted.length };
}

/** The words of a command line. No shell reads it: only quotes and backslashes have a meaning. */
export function splitCommandLine(line: string): string[] {
  const words: string[] = [];
  const token = /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|(\s+)|([^\s'"\\]+)|./gsu;
  let word: string | null = null;
  for (const [whole, single, double, escaped, space] of line.matchAll(token)) {
    if (space !== undefined) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + (single ?? double?.replace(/\\(["\\$`])/g, "$1") ?? escaped ?? whole);
  }
  if (word !== null) words.push(word);
  return words;
}
