/** Answers that a person fills in: a text, a multiple choice, a form. */

import type { JSX } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import type { OpenQuestion } from "../api/types";
import { canAnswer } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { type Field, formAnswer, formFields } from "../text/form-fields";

export interface QuestionProperties {
  question: OpenQuestion;
  session: OpenSession;
  /** Whether the question has been seen for long enough to be answered. */
  isSettled: () => boolean;
}

function Actions({ question, session, isSettled }: QuestionProperties): JSX.Element {
  return (
    <div class="dialog-actions">
      <button type="button" disabled={!canAnswer()} onClick={() => { if (isSettled()) void session.answer(question, null, true); }}>
        Decline
      </button>
      <button type="submit" class="primary" disabled={!canAnswer()}>
        Answer
      </button>
    </div>
  );
}

export function TextQuestion({ question, session, isSettled }: QuestionProperties): JSX.Element {
  const details = question.asked.question.details ?? {};
  const [text, setText] = useState(String(details["default"] ?? ""));
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isSettled()) void session.answer(question, text);
  };
  const common = { "aria-label": question.asked.question.text, placeholder: String(details["placeholder"] ?? ""), value: text, disabled: !canAnswer() };
  return (
    <form onSubmit={submit}>
      {question.asked.question.secret ? (
        <input type="password" autocomplete="off" {...common} onInput={(event) => setText(event.currentTarget.value)} />
      ) : (
        <input type="text" {...common} onInput={(event) => setText(event.currentTarget.value)} />
      )}
      {question.asked.question.secret && <p class="small-print">The answer is not stored.</p>}
      <Actions question={question} session={session} isSettled={isSettled} />
    </form>
  );
}

export function MultiSelect({ question, session, isSettled }: QuestionProperties): JSX.Element {
  const details = (question.asked.question.details ?? {}) as { options?: string[]; selected?: number[] };
  const options = details.options ?? [];
  const [chosen, choose] = useState<ReadonlySet<number>>(new Set(details.selected ?? []));
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isSettled()) void session.answer(question, [...new Set(options.filter((_, index) => chosen.has(index)))]);
  };
  const toggle = (index: number): void => {
    const next = new Set(chosen);
    if (!next.delete(index)) next.add(index);
    choose(next);
  };
  return (
    <form onSubmit={submit}>
      <fieldset class="several">
        <legend class="visually-hidden">{question.asked.question.text}</legend>
        {options.map((option, index) => (
          <label key={index}>
            <input type="checkbox" checked={chosen.has(index)} onChange={() => toggle(index)} /> {option}
          </label>
        ))}
      </fieldset>
      <p class="all-or-none">
        <button type="button" class="quiet" onClick={() => choose(new Set(options.keys()))}>
          All
        </button>
        <button type="button" class="quiet" onClick={() => choose(new Set())}>
          None
        </button>
      </p>
      <Actions question={question} session={session} isSettled={isSettled} />
    </form>
  );
}

interface FieldProperties {
  field: Field;
  value: unknown;
  problem: string;
  set: (value: unknown) => void;
}

function Input({ field, value, id, set, invalid }: FieldProperties & { id: string; invalid: boolean }): JSX.Element {
  const common = { id, "aria-invalid": invalid, "aria-describedby": `${id}-help` };
  const text = String(value ?? "");
  switch (field.kind) {
    case "boolean":
      return <input type="checkbox" {...common} checked={Boolean(value)} onChange={(event) => set(event.currentTarget.checked)} />;
    case "choice":
      return (
        <select {...common} value={String(field.options.findIndex((option) => option.value === value))} onChange={(event) => set(field.options[Number(event.currentTarget.value)]?.value)}>
          <option value="-1">—</option>
          {field.options.map((option, index) => (
            <option value={String(index)}>{option.label}</option>
          ))}
        </select>
      );
    case "several": {
      const chosen = value as unknown[];
      return (
        <div class="several" id={id} role="group" aria-label={field.label}>
          {field.options.map((option) => (
            <label>
              <input type="checkbox" checked={chosen.includes(option.value)} onChange={(event) => set(event.currentTarget.checked ? [...chosen, option.value] : chosen.filter((other) => other !== option.value))} /> {option.label}
            </label>
          ))}
        </div>
      );
    }
    case "number":
    case "integer":
      return <input type="number" step={field.kind === "integer" ? 1 : "any"} {...common} value={text} onInput={(event) => set(event.currentTarget.value)} />;
    case "long":
    case "list":
    case "json":
      return <textarea rows={3} {...common} value={text} placeholder={field.kind === "list" ? "one per line" : field.kind === "json" ? "JSON" : ""} onInput={(event) => set(event.currentTarget.value)} />;
    default: {
      const types: Record<string, string> = { email: "email", uri: "url", date: "date", "date-time": "datetime-local", password: "password" };
      return <input type={field.schema.writeOnly ? "password" : (types[field.schema.format ?? ""] ?? "text")} {...common} value={text} onInput={(event) => set(event.currentTarget.value)} />;
    }
  }
}

function FormField(properties: FieldProperties): JSX.Element {
  const id = useId();
  const { field, problem } = properties;
  return (
    <div class={`field ${field.kind}`}>
      {field.label && (
        <label for={id}>
          {field.label}
          {field.required && <span title="required"> *</span>}
        </label>
      )}
      <Input {...properties} id={id} invalid={Boolean(problem)} />
      <p id={`${id}-help`} class={problem ? "problem" : "small-print"}>
        {problem || field.help}
      </p>
    </div>
  );
}

export function FormQuestion({ question, session, isSettled }: QuestionProperties): JSX.Element {
  const schema = question.asked.question.form ?? {};
  const fields = useMemo(() => formFields(schema), [question.asked.id]);
  const [filled, fill] = useState<Record<string, unknown>>(() => Object.fromEntries(fields.map((field) => [field.name, field.initial])));
  const [problems, setProblems] = useState<Record<string, string>>({});
  const submit = (event: Event): void => {
    event.preventDefault();
    if (!isSettled()) return;
    const result = formAnswer(schema, fields, filled);
    if ("problems" in result) {
      setProblems(result.problems);
      const form = event.currentTarget as HTMLFormElement;
      requestAnimationFrame(() => form.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
    } else void session.answer(question, result.answer);
  };
  return (
    <form onSubmit={submit} noValidate>
      {fields.map((field) => (
        <FormField key={field.name} field={field} value={filled[field.name]} problem={problems[field.name] ?? ""} set={(value) => fill({ ...filled, [field.name]: value })} />
      ))}
      <Actions question={question} session={session} isSettled={isSettled} />
    </form>
  );
}
