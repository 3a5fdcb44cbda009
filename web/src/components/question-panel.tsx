/** The open questions, one at a time. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { OpenQuestion, Rendering } from "../api/types";
import { canAct } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { editDiff, parseUnifiedDiff } from "../text/diff";
import { languageOf } from "../text/languages";
import { Highlighted } from "./code";
import { Diff } from "./diff";
import { RenderedLive } from "./extension-ui";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { type QuestionProperties, FormQuestion, MultiSelect, TextQuestion } from "./question-forms";
import { TerminalText } from "./terminal-text";

interface Question {
  question: OpenQuestion;
}

interface Option {
  value: string;
  label: string;
  hint: string;
  kind: "yes" | "no" | "";
  key: string;
}

const SCOPES: Record<string, string> = {
  session: "Always in this session",
  project: "Always in this project",
  user: "Always in all projects",
};

function optionsOf({ asked: { question } }: OpenQuestion): Option[] {
  const choices = question.choices ?? [];
  if (question.kind !== "permission") {
    return choices.map((value, index) => {
      const kind = value === "yes" || value === "no" ? value : "";
      return { value, label: value, hint: "", kind, key: kind ? kind.charAt(0) : index < 9 ? String(index + 1) : "" };
    });
  }
  const remember = (question.details?.["remember"] ?? {}) as Record<string, string[]>;
  const scopes = choices.filter((choice) => choice in SCOPES);
  return [
    { value: "yes", label: "Allow once", hint: "", kind: "yes", key: "y" },
    { value: "no", label: "Deny", hint: "", kind: "no", key: "n" },
    ...scopes.map((scope): Option => ({ value: scope, label: SCOPES[scope] ?? scope, hint: (remember[scope] ?? []).join(", "), kind: "", key: scope.charAt(0) })),
  ];
}

/** What the call would do: its command, diff or arguments. */
function CallDetails({ question }: Question): JSX.Element | null {
  const details = question.asked.question.details ?? {};
  const values = (details["arguments"] ?? {}) as Record<string, unknown>;
  const tool = String(details["tool"] ?? "");
  const path = String(values["path"] ?? "");
  if (typeof values["command"] === "string") {
    return (
      <pre class="call-details" tabIndex={0} aria-label="Command">
        <Highlighted code={values["command"]} language="bash" />
      </pre>
    );
  }
  if (typeof details["diff"] === "string") return <div class="call-details"><Diff lines={parseUnifiedDiff(details["diff"])} language={languageOf(path)} /></div>;
  if (Array.isArray(values["edits"])) {
    return (
      <div class="call-details">
        <p class="path">{path}</p>
        <Diff lines={editDiff(values["edits"], true)} language={languageOf(path)} />
      </div>
    );
  }
  if (typeof values["content"] === "string") {
    return (
      <div class="call-details">
        <p class="path">{path}</p>
        <pre tabIndex={0} aria-label={`Content of ${path}`}>
          <Highlighted code={values["content"]} language={languageOf(path)} />
        </pre>
      </div>
    );
  }
  if (!tool || !Object.keys(values).length) return null;
  return (
    <pre class="call-details" tabIndex={0} aria-label="Arguments">
      {Object.entries(values).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}\n`)}
    </pre>
  );
}

function Choices({ question, session }: QuestionProperties): JSX.Element {
  return (
    <div class={`options ${question.asked.question.kind ?? ""}`}>
      {optionsOf(question).map((option) => (
        <button type="button" key={option.value} data-key={option.key} class={`option ${option.kind}`} disabled={!canAct()} onClick={() => void session.answer(question, option.value)}>
          {option.key && <kbd aria-hidden="true">{option.key}</kbd>}
          <span>
            {option.label}
            {option.hint && <small>{option.hint}</small>}
          </span>
        </button>
      ))}
    </div>
  );
}

function Body(properties: QuestionProperties): JSX.Element {
  const { kind, choices, details } = properties.question.asked.question;
  if (details?.["dialog"] === "multi_select") return <MultiSelect {...properties} />;
  if (kind === "form") return <FormQuestion {...properties} />;
  if (kind === "text" || (!kind && !choices?.length)) return <TextQuestion {...properties} />;
  return <Choices {...properties} />;
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

export function QuestionPanel({ session }: { session: OpenSession }): JSX.Element | null {
  const questions = session.questions.value;
  const [position, setPosition] = useState(0);
  const element = useRef<HTMLElement>(null);
  const index = Math.min(position, questions.length - 1);
  const question = questions[index];
  useEffect(() => {
    const typed = (document.getElementById("composer") as HTMLTextAreaElement | null)?.value;
    const hasDialog = document.querySelector("dialog[open]") !== null;
    if (!question || typed || hasDialog) return;
    const field = element.current?.querySelector<HTMLElement>("form :is(input, textarea, select)");
    (field ?? element.current)?.focus({ preventScroll: true });
  }, [question?.asked.id]);
  if (!question) return null;
  const { asked, agent } = question;
  const title = heading(question);
  return (
    <section class="question" ref={element} tabIndex={-1} aria-label={`Question: ${title || asked.question.text}`} data-question={asked.id}>
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
        <button type="button" class="quiet small" aria-label="Decline" title="Decline" disabled={!canAct()} onClick={() => void session.answer(question, null, true)}>
          <Icon name="close" size={15} />
        </button>
      </header>
      <div class="question-inside">
        <Description question={question} />
        <CallDetails question={question} />
        {asked.question.reason && <p class="reason">{asked.question.reason}</p>}
      </div>
      <Body key={asked.id} question={question} session={session} />
    </section>
  );
}
