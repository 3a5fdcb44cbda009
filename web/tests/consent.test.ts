import { describe, expect, it } from "vitest";
import { type Consent, REMEMBER, UNDECIDED, choicesOf, confirm, press, select } from "../src/text/consent";
import { countHunks, parseUnifiedDiff } from "../src/text/diff";
import { named } from "../src/text/format";

const CHOICES = ["yes", "session", "project", "user", "no"];
const REMEMBERED = { session: ["bash(npm test)"], user: ["bash"] };

/** Presses keys one after the other; the last step. */
function pressed(...keys: string[]): { consent: Consent; answer?: unknown } {
  let consent = UNDECIDED;
  let answer: unknown;
  for (const key of keys) {
    const step = press(consent, key, choicesOf(CHOICES, REMEMBERED, consent.isRemembering));
    consent = step.consent;
    answer = step.answer;
  }
  return { consent, answer };
}

describe("a permission", () => {
  it("has no selected answer, and Enter alone does nothing", () => {
    expect(pressed("Enter", "Enter")).toEqual({ consent: UNDECIDED, answer: undefined });
  });

  it("is answered by a selection and then Enter", () => {
    expect(pressed("y").answer).toBeUndefined();
    expect(pressed("y", "Enter").answer).toEqual({ answer: "yes" });
    expect(pressed("2", "Enter").answer).toEqual({ answer: "no" });
    expect(pressed("ArrowDown", "Enter").answer).toEqual({ answer: "yes" });
    expect(pressed("ArrowUp").consent.selected).toBe(REMEMBER);
    expect(pressed("y", "Escape", "Enter").answer).toBeUndefined();
  });

  it("offers wider answers behind another step", () => {
    expect(choicesOf(CHOICES, REMEMBERED, false).map(({ value }) => value)).toEqual(["yes", "no", REMEMBER]);
    expect(pressed("u", "Enter").answer).toEqual({ declined: true, answer: "u" });
    expect(pressed("r", "Enter").consent).toEqual({ ...UNDECIDED, isRemembering: true });
    expect(pressed("r", "Enter", "Enter").answer).toBeUndefined();
    expect(pressed("r", "Enter", "s", "Enter").answer).toEqual({ answer: "session" });
    expect(choicesOf(["yes", "no"], {}, false)).toHaveLength(2);
  });

  it("is denied by whatever else is typed", () => {
    expect(pressed(..."you must not", "Enter").answer).toEqual({ declined: true, answer: "you must not" });
    expect(pressed("y", "y", "Enter").answer).toEqual({ declined: true, answer: "yy" });
    expect(pressed("1", "2", "Enter").answer).toEqual({ declined: true, answer: "12" });
    expect(pressed(" ", "Enter").answer).toBeUndefined();
    expect(pressed("é", "Enter").answer).toEqual({ declined: true, answer: "é" });
  });

  it("ignores keys that type nothing", () => {
    expect(press(UNDECIDED, "F5", choicesOf(CHOICES, {}, false)).isHandled).toBe(false);
    expect(press(UNDECIDED, "Escape", choicesOf(CHOICES, {}, false)).isHandled).toBe(false);
  });

  it("forgets a reason when an answer is selected by a click", () => {
    const consent = select(pressed(..."you").consent, "no");
    expect(confirm(consent).answer).toEqual({ answer: "no" });
  });
});

describe("what a question shows", () => {
  it("counts the changes", () => {
    const diff = "--- a\n+++ a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n@@ -9,2 +9,3 @@\n nine\n+more\n ten\n";
    expect(countHunks(parseUnifiedDiff(diff))).toBe(2);
  });

  it("names characters without a shape", () => {
    expect(named("a\u202eb\u200bc\x1b\n\td")).toBe("a⟨U+202E⟩b⟨U+200B⟩c⟨U+001B⟩\n\td");
  });
});
