/** The choices of a question. A permission takes two steps: select, then confirm. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { OpenQuestion } from "../api/types";
import { canAnswer } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { REMEMBER, UNDECIDED, type Choice, type Consent, type Step, choicesOf, confirm, press, select } from "../text/consent";

/** Handles a key for the question that is shown; false if the key is not for it. */
export type KeyHandler = (key: string) => boolean;

export interface ChoiceProperties {
  question: OpenQuestion;
  session: OpenSession;
  /** Whether the question has been seen for long enough to be answered. */
  isSettled: () => boolean;
  /** The panel passes the keys on while it has the focus. */
  setKeys: (keys: KeyHandler) => void;
}

/** Whether an answer lets something happen. */
export function isConsent({ asked: { question, asked_by } }: OpenQuestion): boolean {
  return question.kind === "permission" || (asked_by === "hook" && Boolean(question.choices?.length));
}

function plainChoices(choices: readonly string[]): Choice[] {
  return choices.map((value, index) => {
    const kind = value === "yes" || value === "no" ? value : "";
    return { value, label: value, hint: "", kind, key: kind ? kind.charAt(0) : index < 9 ? String(index + 1) : "" };
  });
}

export function ConsentChoices({ question, session, isSettled, setKeys }: ChoiceProperties): JSX.Element {
  const { kind, choices = [], details } = question.asked.question;
  const [consent, setConsent] = useState<Consent>(UNDECIDED);
  const reason = useRef<HTMLInputElement>(null);
  const remember = (details?.["remember"] ?? {}) as Record<string, string[]>;
  const offered = kind === "permission" ? choicesOf(choices, remember, consent.isRemembering) : plainChoices(choices);
  const take = (step: Step): boolean => {
    setConsent(step.consent);
    if (step.answer) void session.answer(question, step.answer.answer, "declined" in step.answer);
    return step.isHandled;
  };
  setKeys((key) => take(press(consent, key, offered)));
  useEffect(() => {
    const field = reason.current;
    if (!consent.reason || !field || document.activeElement === field) return;
    field.focus();
    field.setSelectionRange(consent.reason.length, consent.reason.length);
  }, [consent.reason]);
  const chosen = offered.find(({ value }) => value === consent.selected);
  const isReady = Boolean(chosen || consent.reason.trim());
  const confirmed = (): void => {
    if (isSettled()) take(confirm(consent));
  };
  const label = consent.reason.trim() ? "Deny with this reason" : chosen?.value === REMEMBER ? "Show what is remembered" : chosen ? `Confirm: ${chosen.label}` : "Select an answer first";
  return (
    <div class="consent">
      <div class={`options ${kind ?? ""}`} role="radiogroup" aria-label="Answers">
        {offered.map((choice, index) => (
          <button
            type="button"
            role="radio"
            key={choice.value}
            aria-checked={choice.value === consent.selected}
            class={`option ${choice.kind}`}
            disabled={!canAnswer()}
            onClick={() => { if (isSettled()) setConsent(select(consent, choice.value)); }}
          >
            <kbd aria-hidden="true">{choice.key || index + 1}</kbd>
            <span>
              {choice.label}
              {choice.hint && <small>{choice.hint}</small>}
            </span>
          </button>
        ))}
      </div>
      <form class="confirm-row" onSubmit={(event) => { event.preventDefault(); confirmed(); }}>
        <input
          ref={reason}
          type="text"
          class="deny-reason"
          aria-label="Reason to deny"
          placeholder="Or type why not: the model gets it"
          autocomplete="off"
          disabled={!canAnswer()}
          value={consent.reason}
          onKeyDown={(event) => { if (event.key === "Enter" && event.repeat) event.preventDefault(); }}
          onInput={(event) => setConsent({ ...UNDECIDED, isRemembering: consent.isRemembering, typed: event.currentTarget.value, reason: event.currentTarget.value })}
        />
        <button type="submit" class="primary" disabled={!canAnswer() || !isReady}>
          {label} <kbd aria-hidden="true">⏎</kbd>
        </button>
      </form>
    </div>
  );
}

/** A choice that allows nothing by itself. Dialogs of extensions have a preselected choice. */
export function PlainChoices({ question, session, isSettled, setKeys }: ChoiceProperties): JSX.Element {
  const { choices = [], details } = question.asked.question;
  const offered = plainChoices(choices);
  const preselected = details?.["dialog"] === "confirm" ? (details["default"] ? "yes" : "no") : details?.["dialog"] === "select" ? (choices[0] ?? "") : "";
  const answer = (value: string): void => {
    if (isSettled()) void session.answer(question, value);
  };
  setKeys((key) => {
    const value = key === "Enter" ? preselected : (offered.find((choice) => choice.key === key)?.value ?? choices[Number(key) - 1] ?? "");
    if (value) answer(value);
    return Boolean(value);
  });
  return (
    <div class="options">
      {offered.map((choice) => (
        <button type="button" key={choice.value} class={`option ${choice.kind}${choice.value === preselected ? " preselected" : ""}`} disabled={!canAnswer()} onClick={() => answer(choice.value)}>
          {choice.key && <kbd aria-hidden="true">{choice.key}</kbd>}
          <span>{choice.label}</span>
        </button>
      ))}
    </div>
  );
}
