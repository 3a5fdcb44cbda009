import { readFileSync, readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { StreamEvent } from "../src/api/types";
import { apply } from "../src/transcript/item-builder";
import { emptyView, itemsOnPath } from "../src/transcript/session-view";

const FOLDER = new URL("../../tests/golden/items/", import.meta.url);

interface Case {
  events: StreamEvent[];
  items: Record<string, unknown>[];
}

/** Fields that only the page has: offsets of streamed text, clocks, and what its components need. */
const PAGE_ONLY = new Set(["points", "argumentsPoints", "outputPoints", "startedMs", "answerText", "isExplained", "view"]);

const isEmpty = (value: unknown): boolean =>
  value === null || value === "" || value === 0 || value === false || (typeof value === "object" && Object.keys(value).length === 0);

/** The fields that an item of the page has in common with the golden one: names in snake_case, empty values left out,
 * also in the result and the children of a call. Values that come from an event stay as they are.
 */
function commonFields(item: object): Record<string, unknown> {
  const fields = Object.entries(item).flatMap(([name, value]): [string, unknown][] => {
    if (PAGE_ONLY.has(name) || isEmpty(value)) return [];
    const key = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (name === "children" && Array.isArray(value)) return [[key, value.map(commonFields)]];
    return [[key, name === "result" ? commonFields(value as object) : value]];
  });
  return Object.fromEntries(fields);
}

describe("the items of", () => {
  it.each(readdirSync(FOLDER).filter((name) => name.endsWith(".json")))("%s", (name) => {
    const { events, items } = JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) as Case;
    expect(itemsOnPath(apply(emptyView("ses_1"), events)).map(commonFields)).toEqual(items);
  });
});
