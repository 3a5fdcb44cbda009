/** The open questions, one at a time. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { OpenQuestion, Rendering } from "../api/types";
import { canAct, canAnswer } from "../state/app";
import { attachments } from "../state/attachments";
import type { OpenSession } from "../state/open-session";
import { composerText, focusComposer } from "../state/prompt-draft";
import { CallDetails, usePreview } from "./call-preview";
import { RenderedLive } from "./extension-ui";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { type ChoiceProperties, type KeyHandler, ConsentChoices, PlainChoices, isConsent } from "./question-choices";
import { FormQuestion, MultiSelect, TextQuestion } from "./question-forms";
import { useSettled } from "./settled";
import { TerminalText } from "./terminal-text";

interface Question {
  question: OpenQuestion;
}

function Body(properties: ChoiceProperties): JSX.Element {
  const { kind, choices, details } = properties.question.asked.question;
  if (details?.["dialog"] === "multi_select") return <MultiSelect {...properties} />;
  if (kind === "form") return <FormQuestion {...properties} />;
  if (kind === "text" || (!kind && !choices?.length)) return <TextQuestion {...properties} />;
  return isConsent(properties.question) ? <ConsentChoices {...properties} /> : <PlainChoices {...properties} />;
}

function heading({ asked: { question, asked_by } }: OpenQuestion): string {
  const details = question.details ?? {};
  if (question.kind === "permission" && details["tool"]) return `Allow ${details["tool"]}?`;
  if (details["dialog"] === "overlay") return String(details["title"] || "");
  return asked_by === "extension" ? "" : question.text;
}

function Description({ question: { session, asked } }: Question): JSX.Element | null {
  const details = asked.question.details ?? {};
  if (details["dialog"] === "overlay") {
    const markdown = String(details["markdown"] ?? "");
    const rendering = details["render"] as Rendering | null | undefined;
    const plain = markdown ? <Markdown text={markdown} /> : <pre class="plain"><TerminalText text={String(details["text"] ?? "")} /></pre>;
    return rendering ? <RenderedLive key={rendering.id} session={session} rendering={rendering}>{plain}</RenderedLive> : plain;
  }
  if (asked.asked_by === "extension") return <Markdown text={asked.question.text} />;
  return null;
}

const FOCUS_KEY = "Alt+Q";
const isFocusKey = (event: KeyboardEvent): boolean => event.altKey && !event.ctrlKey && !event.metaKey && event.code === "KeyQ";
const isTextField = (target: EventTarget | null): boolean => Boolean((target as HTMLElement | null)?.closest?.("input:not([type=checkbox]), textarea, select"));

function hasDraft(): boolean {
  return composerText.value !== "" || attachments.value.length > 0;
}

/** Whether a person types into another field than the empty composer. */
function isTypingElsewhere(panel: HTMLElement | null): boolean {
  const active = document.activeElement;
  return active !== null && active.id !== "composer" && !panel?.contains(active) && isTextField(active);
}

/** Before the question has been seen: what is typed goes to the composer, and no key answers. */
function keepFromAnswering(event: KeyboardEvent, isInside: boolean, panel: HTMLElement | null): void {
  if (document.querySelector("dialog[open]") || (isTextField(event.target) && !isInside)) return;
  const isPrintable = [...event.key].length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isPrintable && !event.repeat && canAct()) {
    focusComposer(); // the browser then types the letter there
    event.stopPropagation();
  } else if (isPrintable || (event.key === "Enter" && (isInside || event.target === document.body || panel === null))) {
    event.preventDefault();
    event.stopPropagation();
  }
}

export function QuestionPanel({ session }: { session: OpenSession }): JSX.Element | null {
  const questions = session.questions.value;
  const [position, setPosition] = useState(0);
  const element = useRef<HTMLElement>(null);
  const index = Math.min(position, questions.length - 1);
  const question = questions[index];
  const preview = usePreview(session, question);
  const keys = useRef<KeyHandler>(() => false);
  const [settled, setSettled] = useState("");
  const focus = (): void => {
    const field = element.current?.querySelector<HTMLElement>("form:not(.confirm-row) :is(input, textarea, select)");
    (field ?? element.current)?.focus({ preventScroll: true });
  };
  const isSettled = useSettled(question?.asked.id ?? "", question !== undefined && preview !== undefined, () => {
    setSettled(question?.asked.id ?? "");
    const isBusy = hasDraft() || document.querySelector("dialog[open]") !== null || isTypingElsewhere(element.current);
    if (canAnswer() && !isBusy) focus();
  });
  useEffect(() => {
    if (!question) return;
    const key = (event: KeyboardEvent): void => {
      const isInside = element.current?.contains(event.target as Node) ?? false;
      if (isFocusKey(event)) {
        event.preventDefault();
        event.stopPropagation();
        if (!event.repeat && isSettled()) focus();
      } else if (!isSettled()) keepFromAnswering(event, isInside, element.current);
      else if (event.repeat && isInside && !isTextField(event.target)) event.preventDefault();
    };
    addEventListener("keydown", key, true);
    return () => removeEventListener("keydown", key, true);
  }, [question?.asked.id, preview]);
  if (!question) return null;
  const pressed = (event: JSX.TargetedKeyboardEvent<HTMLElement>): void => {
    const isOnButton = (event.target as HTMLElement).closest("button:not([role=radio]), a") !== null;
    if (isTextField(event.target) || (isOnButton && [" ", "Enter"].includes(event.key))) return;
    if (event.repeat || event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab" || !canAnswer() || !isSettled()) return;
    if (event.key === " " && (event.target as HTMLElement).matches("[role=radio]")) return; // it selects
    if (!keys.current(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const { asked, agent } = question;
  const title = heading(question);
  return (
    <section class="question" ref={element} tabIndex={-1} aria-busy={settled !== asked.id} onKeyDown={pressed} aria-label={`Question: ${title || asked.question.text}`} data-question={asked.id}>
      <header>
        <Icon name="help" size={17} />
        {title && <h2>{title}</h2>}
        {agent && <span class="badge">{agent}</span>}
        {asked.asked_by === "extension" && <span class="badge">{String(asked.question.details?.["extension"] ?? "extension")}</span>}
        {questions.length > 1 && (
          <span class="question-pager">
            <button type="button" class="quiet small" aria-label="Previous question" disabled={index === 0} onClick={() => setPosition(index - 1)}>
              <Icon name="left" size={14} />
            </button>
            {index + 1} of {questions.length}
            <button type="button" class="quiet small" aria-label="Next question" disabled={index === questions.length - 1} onClick={() => setPosition(index + 1)}>
              <Icon name="right" size={14} />
            </button>
          </span>
        )}
        <kbd class="focus-key" title="Moves the focus here">{FOCUS_KEY}</kbd>
        {!isConsent(question) && (
          <button type="button" class="quiet small" aria-label="Decline" title="Decline" disabled={!canAnswer()} onClick={() => { if (isSettled()) void session.answer(question, null, true); }}>
            <Icon name="close" size={15} />
          </button>
        )}
      </header>
      <div class="question-inside">
        <Description question={question} />
        <CallDetails key={asked.id} question={question} preview={preview} />
        {asked.question.reason && <p class="reason">{asked.question.reason}</p>}
      </div>
      <Body key={asked.id} question={question} session={session} isSettled={isSettled} setKeys={(handler) => { keys.current = handler; }} />
    </section>
  );
}
