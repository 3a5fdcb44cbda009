/** Answers that are filled in: a text, some of several, a form with fields of every kind. */

import type { JSX } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import { type Field, answerOf, fieldsOf } from "../text/form-fields";
import type { AskedView } from "../transcript/session-view";
import { mayAct } from "../state/app";
import type { OpenSession } from "../state/open-session";

interface Properties {
  asked: AskedView;
  session: OpenSession;
}

function Actions({ asked, session }: Properties): JSX.Element {
  return (
    <div class="dialog-actions">
      <button type="button" disabled={!mayAct()} onClick={() => void session.answer(asked, null, true)}>
        Decline
      </button>
      <button type="submit" class="primary" disabled={!mayAct()}>
        Answer
      </button>
    </div>
  );
}

export function TextQuestion({ asked, session }: Properties): JSX.Element {
  const details = asked.question.details ?? {};
  const [text, setText] = useState(String(details["default"] ?? ""));
  const submit = (event: Event): void => {
    event.preventDefault();
    void session.answer(asked, text);
  };
  const common = { "aria-label": asked.question.text, placeholder: String(details["placeholder"] ?? ""), value: text, disabled: !mayAct() };
  return (
    <form onSubmit={submit}>
      {asked.question.secret ? (
        <input type="password" autocomplete="off" {...common} onInput={(event) => setText(event.currentTarget.value)} />
      ) : (
        <input type="text" {...common} onInput={(event) => setText(event.currentTarget.value)} />
      )}
      {asked.question.secret && <p class="small-print">The answer is not stored.</p>}
      <Actions asked={asked} session={session} />
    </form>
  );
}

export function MultiSelect({ asked, session }: Properties): JSX.Element {
  const details = (asked.question.details ?? {}) as { options?: string[]; selected?: number[] };
  const options = details.options ?? [];
  const [chosen, choose] = useState<ReadonlySet<number>>(new Set(details.selected ?? []));
  const submit = (event: Event): void => {
    event.preventDefault();
    void session.answer(asked, [...new Set(options.filter((_, place) => chosen.has(place)))]);
  };
  const toggle = (place: number): void => {
    const now = new Set(chosen);
    if (!now.delete(place)) now.add(place);
    choose(now);
  };
  return (
    <form onSubmit={submit}>
      <fieldset class="several">
        <legend class="visually-hidden">{asked.question.text}</legend>
        {options.map((option, place) => (
          <label key={place}>
            <input type="checkbox" checked={chosen.has(place)} onChange={() => toggle(place)} /> {option}
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
      <Actions asked={asked} session={session} />
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
        <select {...common} value={String(field.options.findIndex((one) => one.value === value))} onChange={(event) => set(field.options[Number(event.currentTarget.value)]?.value)}>
          <option value="-1">—</option>
          {field.options.map((one, place) => (
            <option value={String(place)}>{one.label}</option>
          ))}
        </select>
      );
    case "several": {
      const chosen = value as unknown[];
      return (
        <div class="several" id={id} role="group" aria-label={field.label}>
          {field.options.map((one) => (
            <label>
              <input type="checkbox" checked={chosen.includes(one.value)} onChange={(event) => set(event.currentTarget.checked ? [...chosen, one.value] : chosen.filter((other) => other !== one.value))} /> {one.label}
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
      return <textarea rows={3} {...common} value={text} placeholder={field.kind === "list" ? "one a line" : field.kind === "json" ? "JSON" : ""} onInput={(event) => set(event.currentTarget.value)} />;
    default: {
      const types: Record<string, string> = { email: "email", uri: "url", date: "date", "date-time": "datetime-local", password: "password" };
      return <input type={types[field.schema.format ?? ""] ?? "text"} {...common} value={text} onInput={(event) => set(event.currentTarget.value)} />;
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
          {field.required && <span title="needed"> *</span>}
        </label>
      )}
      <Input {...properties} id={id} invalid={Boolean(problem)} />
      <p id={`${id}-help`} class={problem ? "problem" : "small-print"}>
        {problem || field.help}
      </p>
    </div>
  );
}

export function FormQuestion({ asked, session }: Properties): JSX.Element {
  const schema = asked.question.form ?? {};
  const fields = useMemo(() => fieldsOf(schema), [asked.id]);
  const [filled, fill] = useState<Record<string, unknown>>(() => Object.fromEntries(fields.map((one) => [one.name, one.initial])));
  const [problems, setProblems] = useState<Record<string, string>>({});
  const submit = (event: Event): void => {
    event.preventDefault();
    const made = answerOf(schema, fields, filled);
    if ("problems" in made) {
      setProblems(made.problems);
      const form = event.currentTarget as HTMLFormElement;
      requestAnimationFrame(() => form.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
    } else void session.answer(asked, made.answer);
  };
  return (
    <form onSubmit={submit} noValidate>
      {fields.map((field) => (
        <FormField key={field.name} field={field} value={filled[field.name]} problem={problems[field.name] ?? ""} set={(value) => fill({ ...filled, [field.name]: value })} />
      ))}
      <Actions asked={asked} session={session} />
    </form>
  );
}
