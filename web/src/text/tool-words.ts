/** What a call is about, in a line. */

import { partialArguments } from "./partial-json";
import type { ToolBlock } from "../transcript/session-view";

const TELLING = ["command", "path", "file_path", "pattern", "query", "url", "name", "task", "prompt", "text"];

const ICONS: Record<string, string> = {
  bash: "terminal",
  execute: "terminal",
  edit: "pencil",
  write: "pencil",
  read: "file",
  search: "search",
  grep: "search",
  find: "search",
  ls: "folder",
  fetch: "globe",
  todo: "todo",
  agent: "agent",
  skill: "file",
};

const parsed = new WeakMap<ToolBlock, Record<string, unknown>>();

/** The arguments, as far as they are known. */
export function argumentsOf(tool: ToolBlock): Record<string, unknown> {
  if (tool.arguments) return tool.arguments;
  let found = parsed.get(tool);
  if (!found) {
    found = partialArguments(tool.argumentsText);
    parsed.set(tool, found);
  }
  return found;
}

export function iconOf(tool: { name: string; about: string }): string {
  return ICONS[tool.name] ?? ICONS[tool.about] ?? "gear";
}

export function titleOf(tool: ToolBlock): string {
  const values = argumentsOf(tool);
  if (tool.display?.title?.includes("{")) {
    return tool.display.title
      .replace(/\{(\w+)\}/g, (_, name: string) => said(values[name]))
      .replace(/\s+/g, " ")
      .trim();
  }
  if (tool.name === "grep") {
    const where = said(values["path"]);
    return `${said(values["pattern"])}${where ? ` in ${where}` : ""}`;
  }
  for (const name of TELLING) if (typeof values[name] === "string") return values[name] as string;
  const first = Object.values(values).find((value) => typeof value === "string");
  return (first as string | undefined) ?? "";
}

function said(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Arguments that the title does not tell, for people who look closer. */
export function otherArguments(tool: ToolBlock): [string, string][] {
  const title = titleOf(tool);
  return Object.entries(argumentsOf(tool))
    .filter(([, value]) => value !== title && value !== undefined)
    .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value, null, 1)]);
}
