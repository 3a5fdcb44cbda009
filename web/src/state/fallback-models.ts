/** Which models may go on for one that has failed. */

import type { ModelInfo } from "../api/types";

/** With these, another model would not be better off. */
const NOT_THE_VENDORS = new Set(["context_overflow", "invalid_answer", "interrupted"]);
const NO_ANSWER_WITH_KEY = new Set(["authentication_failed", "permission_denied"]);

const vendorOf = (model: string): string => model.split("/", 1)[0] ?? "";

export function canBeRescued(failure: string): boolean {
  return failure !== "" && !NOT_THE_VENDORS.has(failure);
}

/** One of each vendor that can answer now, other vendors' first, and none with a key that was refused. */
export function rescuers(models: readonly ModelInfo[], failed: string, failure: string): string[] {
  const owner = vendorOf(failed);
  const ready = models.filter((one) => one.ready && one.name !== failed && !(one.aliases ?? []).includes(failed));
  const fit = NO_ANSWER_WITH_KEY.has(failure) ? ready.filter((one) => vendorOf(one.name) !== owner) : ready;
  const rank = (one: ModelInfo): number => (vendorOf(one.name) === owner ? 2 : 0) + (one.default ? 0 : 1);
  const sorted = [...fit].sort((one, other) => rank(one) - rank(other)).map((one) => one.name);
  return sorted.filter((name, place) => sorted.findIndex((one) => vendorOf(one) === vendorOf(name)) === place);
}
