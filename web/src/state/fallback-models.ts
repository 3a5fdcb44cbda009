/** The models that can replace one that failed. */

import type { ModelInfo } from "../api/types";

/** Failures that another model would not avoid. */
const NOT_VENDOR_FAILURES = new Set(["context_overflow", "invalid_answer", "interrupted"]);
/** Failures of the key: other models of this vendor fail, too. */
const KEY_FAILURES = new Set(["authentication_failed", "permission_denied"]);

const vendorOf = (model: string): string => model.split("/", 1)[0] ?? "";

export function hasFallback(failure: string): boolean {
  return failure !== "" && !NOT_VENDOR_FAILURES.has(failure);
}

/** One available model of each vendor, other vendors' first. */
export function fallbackModels(models: readonly ModelInfo[], failed: string, failure: string): string[] {
  const vendor = vendorOf(failed);
  const ready = models.filter((model) => model.ready && model.name !== failed && !(model.aliases ?? []).includes(failed));
  const usable = KEY_FAILURES.has(failure) ? ready.filter((model) => vendorOf(model.name) !== vendor) : ready;
  const rank = (model: ModelInfo): number => (vendorOf(model.name) === vendor ? 2 : 0) + (model.default ? 0 : 1);
  const sorted = [...usable].sort((first, second) => rank(first) - rank(second)).map((model) => model.name);
  return sorted.filter((name, index) => sorted.findIndex((other) => vendorOf(other) === vendorOf(name)) === index);
}
