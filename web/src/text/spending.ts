/** What model calls have cost, a group's own and its children's together. */

import type { Spent, Usage, UsageGroup } from "../api/types";

export function sumOfUsage(one: Usage = {}, other: Usage = {}): Usage {
  const sum = (name: "input_tokens" | "output_tokens" | "cache_read_tokens" | "cache_write_tokens"): number => (one[name] ?? 0) + (other[name] ?? 0);
  return {
    input_tokens: sum("input_tokens"),
    output_tokens: sum("output_tokens"),
    cache_read_tokens: sum("cache_read_tokens"),
    cache_write_tokens: sum("cache_write_tokens"),
  };
}

export function spentTogether({ own = {}, children = {} }: { own?: Spent; children?: Spent }): Spent {
  return {
    calls: (own.calls ?? 0) + (children.calls ?? 0),
    usage: sumOfUsage(own.usage, children.usage),
    known_cost: (own.known_cost ?? 0) + (children.known_cost ?? 0),
    unpriced_calls: (own.unpriced_calls ?? 0) + (children.unpriced_calls ?? 0),
  };
}

/** The cost as far as it is known, and whether that is all of it. */
export function costOf(spent: Spent): { cost: number; isWhole: boolean } {
  return { cost: spent.known_cost ?? 0, isWhole: !spent.unpriced_calls };
}

export function groupName(group: UsageGroup, by: "day" | "model" | "session", title: string): string {
  if (by === "session") return title || group.session || "";
  return (by === "day" ? group.day : group.model) || "not known";
}
