/** Numbers, times and calls in words. */

import type { Totals, Usage } from "../api/types";

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

export function elapsed(ms: number): string {
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

/** What totals cost at least: a cost that is not known counts with its known part. */
export function leastCost(totals: Totals): number {
  return totals.usage?.cost ?? totals.known_cost ?? 0;
}

export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

/** How long ago, in a word or two. */
export function ago(then: number, now: number): string {
  const seconds = Math.max(0, (now - then) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 86_400 * 7) return `${Math.floor(seconds / 86_400)} d`;
  const date = new Date(then);
  const year = date.getFullYear() === new Date(now).getFullYear() ? undefined : "numeric";
  return date.toLocaleDateString(undefined, { day: "numeric", month: "short", year });
}

/** The end of a path, where all of it is too much. */
export function shortPath(path: string, parts = 2): string {
  const pieces = path.split("/").filter(Boolean);
  if (pieces.length <= parts) return path;
  return `…/${pieces.slice(-parts).join("/")}`;
}

export function firstLine(text: string, most = 200): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** Escape sequences of terminals, and what else cannot be shown. */
export function plainText(text: string): string {
  return text
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]/g, "")
    .replace(/[^\n]*\r(?!\n)/g, "")
    .replace(/\r\n/g, "\n")
    .replace(/[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]/g, "");
}
