/** What can be completed while a command is typed: names that begin with it come first, then those that contain it. */

import type { Command } from "../api/types";

export const OWN: Command[] = [
  { name: "model", description: "Which model answers", kind: "page" },
  { name: "compact", description: "Summarise the earlier messages", kind: "page", arguments: "[what matters]" },
  { name: "rename", description: "Give this session a title", kind: "page", arguments: "title" },
  { name: "fork", description: "Go on in a copy", kind: "page" },
  { name: "tree", description: "The branches of this session", kind: "page" },
  { name: "context", description: "What the model is told", kind: "page" },
  { name: "new", description: "Begin a session", kind: "page" },
  { name: "help", description: "Keys", kind: "page" },
];

export function completions(text: string, commands: readonly Command[]): Command[] {
  const typed = /^\/(\S*)$/.exec(text)?.[1]?.toLowerCase();
  if (typed === undefined) return [];
  const known = new Set(commands.map((one) => one.name));
  const all = [...commands, ...OWN.filter((one) => !known.has(one.name))];
  const first = all.filter((one) => one.name.toLowerCase().startsWith(typed));
  const others = all.filter((one) => !first.includes(one) && one.name.toLowerCase().includes(typed));
  return [...first, ...others].slice(0, 12);
}

/** The command that a text is, with its arguments; null for a text that is none. */
export function commandIn(text: string, commands: readonly Command[]): { command: Command; rest: string } | null {
  const found = /^\/(\S+)(?:\s+([\s\S]*))?$/.exec(text.trim());
  if (!found) return null;
  const name = found[1] ?? "";
  const command = [...commands, ...OWN].find((one) => one.name === name);
  return command ? { command, rest: (found[2] ?? "").trim() } : null;
}

export interface Suggestion {
  label: string;
  hint: string;
  about: string;
  badge: string;
  /** What the whole text becomes, and where one goes on typing. */
  text: string;
  caret: number;
}

export function commandSuggestions(text: string, commands: readonly Command[]): Suggestion[] {
  return completions(text, commands).map((one) => ({
    label: `/${one.name}`,
    hint: one.arguments ?? "",
    about: one.description ?? "",
    badge: one.kind === "page" ? "" : (one.kind ?? ""),
    text: `/${one.name} `,
    caret: one.name.length + 2,
  }));
}

/** The mention that is being typed before the caret: where it begins, and the letters so far. */
export function mentionAt(text: string, caret: number): { start: number; letters: string } | null {
  const found = /(?:^|[\s(])@("?)([^\s"]*)$/.exec(text.slice(0, caret));
  if (!found) return null;
  const letters = found[2] ?? "";
  return { start: caret - letters.length - (found[1]?.length ?? 0) - 1, letters };
}

export function withMention(text: string, start: number, caret: number, mention: string): { text: string; caret: number } {
  const isFolder = mention.endsWith("/");
  const put = isFolder ? mention : `${mention} `;
  return { text: text.slice(0, start) + put + text.slice(caret).replace(/^ /, isFolder ? " " : ""), caret: start + put.length };
}
