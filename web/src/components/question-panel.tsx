/** What is asked of a person: one question at a time, and how many more wait. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { editLines, readUnified } from "../text/diff";
import { languageOf } from "../text/languages";
import type { AskedView } from "../transcript/session-view";
import { mayAct } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { Highlighted } from "./code";
import { Diff } from "./diff";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { FormQuestion, MultiSelect, TextQuestion } from "./question-forms";
import { RenderedLive } from "./extension-ui";
import { TerminalText } from "./terminal-text";
import type { Rendering } from "../api/types";

export interface Option {
  value: string;
  label: string;
  hint: string;
  kind: "yes" | "no" | "";
  key: string;
}

const SCOPES: Record<string, string> = {
  session: "Always in this session",
  project: "Always in this project",
  user: "Always, everywhere",
};

export function optionsOf({ question }: AskedView): Option[] {
  const choices = question.choices ?? [];
  if (question.kind !== "permission") {
    return choices.map((value, place) => {
      const kind = value === "yes" || value === "no" ? value : "";
      return { value, label: value, hint: "", kind, key: kind ? kind.charAt(0) : place < 9 ? String(place + 1) : "" };
    });
  }
  const remember = (question.details?.["remember"] ?? {}) as Record<string, string[]>;
  const scopes = choices.filter((one) => one in SCOPES);
  return [
    { value: "yes", label: "Allow once", hint: "", kind: "yes", key: "y" },
    { value: "no", label: "Deny", hint: "", kind: "no", key: "n" },
    ...scopes.map((one): Option => ({ value: one, label: SCOPES[one] ?? one, hint: (remember[one] ?? []).join(", "), kind: "", key: one.charAt(0) })),
  ];
}

/** What the person should see to judge a call. */
function Judged({ asked }: { asked: AskedView }): JSX.Element | null {
  const details = asked.question.details ?? {};
  const values = (details["arguments"] ?? {}) as Record<string, unknown>;
  const tool = String(details["tool"] ?? "");
  const path = String(values["path"] ?? "");
  if (typeof values["command"] === "string") {
    return (
      <pre class="judged" tabIndex={0} aria-label="Command">
        <Highlighted code={values["command"]} language="bash" />
      </pre>
    );
  }
  if (typeof details["diff"] === "string") return <div class="judged"><Diff lines={readUnified(details["diff"])} language={languageOf(path)} /></div>;
  if (Array.isArray(values["edits"])) {
    return (
      <div class="judged">
        <p class="path">{path}</p>
        <Diff lines={editLines(values["edits"], true)} language={languageOf(path)} />
      </div>
    );
  }
  if (typeof values["content"] === "string") {
    return (
      <div class="judged">
        <p class="path">{path}</p>
        <pre tabIndex={0} aria-label={`Content of ${path}`}>
          <Highlighted code={values["content"]} language={languageOf(path)} />
        </pre>
      </div>
    );
  }
  if (!tool || !Object.keys(values).length) return null;
  return (
    <pre class="judged" tabIndex={0} aria-label="Arguments">
      {Object.entries(values).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}\n`)}
    </pre>
  );
}

function Choices({ asked, session }: { asked: AskedView; session: OpenSession }): JSX.Element {
  return (
    <div class={`options ${asked.question.kind ?? ""}`}>
      {optionsOf(asked).map((option) => (
        <button type="button" key={option.value} data-key={option.key} class={`option ${option.kind}`} disabled={!mayAct()} onClick={() => void session.answer(asked, option.value)}>
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

function Body({ asked, session }: { asked: AskedView; session: OpenSession }): JSX.Element {
  const { question } = asked;
  const dialog = question.details?.["dialog"];
  if (dialog === "multi_select") return <MultiSelect asked={asked} session={session} />;
  if (question.kind === "form") return <FormQuestion asked={asked} session={session} />;
  if (question.kind === "text" || (!question.kind && !question.choices?.length)) return <TextQuestion asked={asked} session={session} />;
  return <Choices asked={asked} session={session} />;
}

function heading({ question, askedBy }: AskedView): string {
  const details = question.details ?? {};
  if (question.kind === "permission" && details["tool"]) return `Allow ${details["tool"]}?`;
  if (details["dialog"] === "overlay") return String(details["title"] || "");
  return askedBy === "extension" ? "" : question.text;
}

function About({ asked }: { asked: AskedView }): JSX.Element | null {
  const { question } = asked;
  const details = question.details ?? {};
  if (details["dialog"] === "overlay") {
    const markdown = String(details["markdown"] ?? "");
    const rendering = details["render"] as Rendering | null | undefined;
    const plain = markdown ? <Markdown text={markdown} /> : <pre class="plain"><TerminalText text={String(details["text"] ?? "")} /></pre>;
    return rendering ? <RenderedLive key={rendering.id} session={asked.session} rendering={rendering}>{plain}</RenderedLive> : plain;
  }
  if (asked.askedBy === "extension") return <Markdown text={question.text} />;
  return null;
}

export function Questions({ session }: { session: OpenSession }): JSX.Element | null {
  const questions = session.questions.value;
  const [place, setPlace] = useState(0);
  const element = useRef<HTMLElement>(null);
  const at = Math.min(place, questions.length - 1);
  const asked = questions[at];
  useEffect(() => {
    const typed = (document.getElementById("composer") as HTMLTextAreaElement | null)?.value;
    const isElsewhere = document.querySelector("dialog[open]") !== null;
    if (!asked || typed || isElsewhere) return;
    const field = element.current?.querySelector<HTMLElement>("form :is(input, textarea, select)");
    (field ?? element.current)?.focus({ preventScroll: true });
  }, [asked?.id]);
  if (!asked) return null;
  const title = heading(asked);
  return (
    <section class="question" ref={element} tabIndex={-1} aria-label={`Question: ${title || asked.question.text}`} data-question={asked.id}>
      <header>
        <Icon name="help" size={17} />
        {title && <h2>{title}</h2>}
        {asked.agent && <span class="badge">{asked.agent}</span>}
        {asked.askedBy === "extension" && <span class="badge">{String(asked.question.details?.["extension"] ?? "extension")}</span>}
        {questions.length > 1 && (
          <span class="among">
            <button type="button" class="quiet small" aria-label="The question before" disabled={at === 0} onClick={() => setPlace(at - 1)}>
              <Icon name="left" size={14} />
            </button>
            {at + 1} of {questions.length}
            <button type="button" class="quiet small" aria-label="The next question" disabled={at === questions.length - 1} onClick={() => setPlace(at + 1)}>
              <Icon name="right" size={14} />
            </button>
          </span>
        )}
        <button type="button" class="quiet small" aria-label="Decline" title="Decline" disabled={!mayAct()} onClick={() => void session.answer(asked, null, true)}>
          <Icon name="close" size={15} />
        </button>
      </header>
      <div class="question-inside">
        <About asked={asked} />
        <Judged asked={asked} />
        {asked.question.reason && <p class="reason">{asked.question.reason}</p>}
      </div>
      <Body key={asked.id} asked={asked} session={session} />
    </section>
  );
}
