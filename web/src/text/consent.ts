/** Which keys and clicks answer a permission: a choice is selected first, then confirmed. Pure. */

export interface Choice {
  value: string;
  label: string;
  /** The rules that it remembers. */
  hint: string;
  kind: "yes" | "no" | "";
  /** Its letter. */
  key: string;
}

/** Not an answer: opens the answers that are remembered. */
export const REMEMBER = "remember";

export interface Consent {
  /** The value of the selected choice; none is selected at first. */
  selected: string;
  /** Whether the answers that are remembered are shown. */
  isRemembering: boolean;
  /** Everything typed since a choice could be selected. */
  typed: string;
  /** Why the person declines. */
  reason: string;
}

export const UNDECIDED: Consent = { selected: "", isRemembering: false, typed: "", reason: "" };

export type Answer = { answer: string } | { declined: true; answer: string };

export interface Step {
  consent: Consent;
  answer?: Answer;
  /** Whether the key was one for the question. */
  isHandled: boolean;
}

const SCOPES: Record<string, string> = {
  session: "Always in this session",
  project: "Always in this project",
  user: "Always in all projects",
};

/** The choices of a permission in two lists: answers that are remembered are behind another step. */
export function choicesOf(choices: readonly string[], remember: Record<string, string[]>, isRemembering: boolean): Choice[] {
  const scopes = choices.filter((choice) => choice in SCOPES);
  if (isRemembering) {
    return scopes.map((value) => ({ value, label: SCOPES[value] ?? value, hint: (remember[value] ?? []).join(", "), kind: "", key: value.charAt(0) }));
  }
  const first: Choice[] = [
    { value: "yes", label: "Allow once", hint: "", kind: "yes", key: "y" },
    { value: "no", label: "Deny", hint: "", kind: "no", key: "n" },
  ];
  return scopes.length ? [...first, { value: REMEMBER, label: "Remember…", hint: "", kind: "", key: "r" }] : first;
}

/** Enter, or the button: does what is selected. A reason declines. */
export function confirm(consent: Consent): Step {
  if (consent.reason.trim()) return { consent, answer: { declined: true, answer: consent.reason.trim() }, isHandled: true };
  if (consent.selected === REMEMBER) return { consent: { ...UNDECIDED, isRemembering: true }, isHandled: true };
  if (consent.selected) return { consent, answer: { answer: consent.selected }, isHandled: true };
  return { consent, isHandled: true }; // Enter alone never answers
}

export function select(consent: Consent, value: string): Consent {
  return { ...consent, selected: value, typed: "", reason: "" };
}

/** A key while the question has the focus. */
export function press(consent: Consent, key: string, choices: readonly Choice[]): Step {
  if (key === "Enter") return confirm(consent);
  if (key === "Escape") {
    const isFresh = !consent.selected && !consent.isRemembering && !consent.typed;
    return { consent: UNDECIDED, isHandled: !isFresh };
  }
  if (["ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"].includes(key)) {
    const by = key === "ArrowDown" || key === "ArrowRight" ? 1 : -1;
    const at = choices.findIndex(({ value }) => value === consent.selected);
    const next = at < 0 ? (by > 0 ? 0 : choices.length - 1) : (at + by + choices.length) % choices.length;
    return { consent: select(consent, choices[next]?.value ?? ""), isHandled: true };
  }
  if ([...key].length !== 1) return { consent, isHandled: false };
  const typed = consent.typed + key;
  const choice = choices.find((other) => other.key === key.toLowerCase()) ?? choices[Number(key) - 1];
  if (consent.typed || !choice) return { consent: { ...consent, selected: "", typed, reason: typed }, isHandled: true };
  return { consent: { ...consent, selected: choice.value, typed, reason: "" }, isHandled: true };
}
