/** Numbers, times, costs and tool calls as short text. */

import type { Spending, Totals, Usage, UsageGroup } from "../api/types";
import type { CallItem } from "../transcript/items";
import { partialArguments } from "./partial-json";

export function shortTokens(count: number): string {
  if (count < 1000) return String(count);
  if (count < 10_000) return `${(count / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (count < 1_000_000) return `${Math.round(count / 1000)}k`;
  return `${(count / 1_000_000).toFixed(1).replace(/\.0$/, "")}M`;
}

export function dollars(cost: number): string {
  if (cost === 0) return "$0";
  if (cost < 0.01) return `$${cost.toFixed(4)}`;
  return `$${cost.toFixed(2)}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function totalTokens(usage: Usage | undefined): number {
  if (!usage) return 0;
  const { input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0 } = usage;
  return input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
}

/** The cost as far as it is known. */
export function knownCost(totals: Totals): number {
  return totals.usage?.cost ?? totals.known_cost ?? 0;
}

export function fileSize(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

/** How long ago: `5 min`, `3 h`, or a date. */
export function relativeTime(then: number, now: number): string {
  const seconds = Math.max(0, (now - then) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 86_400 * 7) return `${Math.floor(seconds / 86_400)} d`;
  const date = new Date(then);
  const year = date.getFullYear() === new Date(now).getFullYear() ? undefined : "numeric";
  return date.toLocaleDateString(undefined, { day: "numeric", month: "short", year });
}

/** The last parts of a path. */
export function shortPath(path: string, parts = 2): string {
  const names = path.split("/").filter(Boolean);
  if (names.length <= parts) return path;
  return `…/${names.slice(-parts).join("/")}`;
}

export function firstLine(text: string, max = 200): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > max ? `${line.slice(0, max)}…` : line;
}

/** Removes terminal escape sequences and other control characters. */
export function plainText(text: string): string {
  return text
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]/g, "")
    .replace(/[^\n]*\r(?!\n)/g, "")
    .replace(/\r\n/g, "\n")
    .replace(/[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]/g, "");
}

export function sumOfUsage(first: Usage = {}, second: Usage = {}): Usage {
  const sum = (name: "input_tokens" | "output_tokens" | "cache_read_tokens" | "cache_write_tokens"): number => (first[name] ?? 0) + (second[name] ?? 0);
  return {
    input_tokens: sum("input_tokens"),
    output_tokens: sum("output_tokens"),
    cache_read_tokens: sum("cache_read_tokens"),
    cache_write_tokens: sum("cache_write_tokens"),
  };
}

/** The spending of a group and of its children. */
export function totalSpending({ own = {}, children = {} }: { own?: Spending; children?: Spending }): Spending {
  return {
    calls: (own.calls ?? 0) + (children.calls ?? 0),
    usage: sumOfUsage(own.usage, children.usage),
    known_cost: (own.known_cost ?? 0) + (children.known_cost ?? 0),
    unpriced_calls: (own.unpriced_calls ?? 0) + (children.unpriced_calls ?? 0),
  };
}

/** The known cost, and whether it is complete. */
export function costOf(spending: Spending): { cost: number; isComplete: boolean } {
  return { cost: spending.known_cost ?? 0, isComplete: !spending.unpriced_calls };
}

export function groupName(group: UsageGroup, by: "day" | "model" | "session", title: string): string {
  if (by === "session") return title || group.session || "";
  return (by === "day" ? group.day : group.model) || "unknown";
}

/** The arguments that describe a call best, in this order. */
const TITLE_ARGUMENTS = ["command", "path", "file_path", "pattern", "query", "url", "name", "task", "prompt", "text"];

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

const parsedArguments = new WeakMap<CallItem, Record<string, unknown>>();

/** The arguments of a call, as far as they are written. */
export function callArguments(item: CallItem): Record<string, unknown> {
  if (item.arguments) return item.arguments;
  const values = parsedArguments.get(item) ?? partialArguments(item.argumentsText);
  parsedArguments.set(item, values);
  return values;
}

export function callIcon(item: CallItem): string {
  return ICONS[item.name] ?? ICONS[item.toolKind] ?? "gear";
}

/** What a call is about, in one line. */
export function callTitle(item: CallItem): string {
  const values = callArguments(item);
  if (item.display?.title?.includes("{")) {
    return item.display.title
      .replace(/\{(\w+)\}/g, (_, name: string) => valueText(values[name]))
      .replace(/\s+/g, " ")
      .trim();
  }
  if (item.name === "grep") {
    const where = valueText(values["path"]);
    return `${valueText(values["pattern"])}${where ? ` in ${where}` : ""}`;
  }
  for (const name of TITLE_ARGUMENTS) if (typeof values[name] === "string") return values[name] as string;
  const first = Object.values(values).find((value) => typeof value === "string");
  return (first as string | undefined) ?? "";
}

function valueText(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The arguments that are not in the title. */
export function detailArguments(item: CallItem): [string, string][] {
  const title = callTitle(item);
  return Object.entries(callArguments(item))
    .filter(([, value]) => value !== title && value !== undefined)
    .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value, null, 1)]);
}

/** The text with characters named that have no shape or change the order of others. */
export function named(text: string): string {
  return text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (character) => `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}
