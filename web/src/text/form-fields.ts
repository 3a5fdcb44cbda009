/** A JSON Schema as fields of a form, and what was filled in as the answer. */

import type { Schema } from "../api/types";

export type FieldKind = "text" | "long" | "number" | "integer" | "boolean" | "choice" | "several" | "list" | "json";

export interface Field {
  name: string;
  label: string;
  help: string;
  kind: FieldKind;
  required: boolean;
  /** Of a choice: the values and how they are said. */
  options: { value: unknown; label: string }[];
  initial: unknown;
  schema: Schema;
}

export function fieldsOf(schema: Schema): Field[] {
  if (!schema.properties) return [fieldOf("", schema, true)];
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties).map(([name, one]) => fieldOf(name, one, required.has(name)));
}

function fieldOf(name: string, schema: Schema, required: boolean): Field {
  const kind = kindOf(schema);
  const options = kind === "choice" ? optionsOf(schema) : kind === "several" ? optionsOf(schema.items ?? {}) : [];
  return {
    name,
    label: schema.title ?? name.replace(/_/g, " "),
    help: schema.description ?? "",
    kind,
    required,
    options,
    initial: schema.default ?? empty(kind),
    schema,
  };
}

function typeOf(schema: Schema): string {
  const types = Array.isArray(schema.type) ? schema.type.filter((one) => one !== "null") : [schema.type ?? ""];
  return types[0] ?? "";
}

function kindOf(schema: Schema): FieldKind {
  if (optionsOf(schema).length) return "choice";
  switch (typeOf(schema)) {
    case "boolean":
      return "boolean";
    case "number":
      return "number";
    case "integer":
      return "integer";
    case "string":
      return (schema.maxLength ?? 0) > 200 || schema.format === "textarea" ? "long" : "text";
    case "array":
      if (schema.items && optionsOf(schema.items).length) return "several";
      return typeOf(schema.items ?? {}) === "string" ? "list" : "json";
    default:
      return "json";
  }
}

function optionsOf(schema: Schema): { value: unknown; label: string }[] {
  if (schema.enum) {
    return schema.enum.map((value, place) => ({ value, label: schema.enumNames?.[place] ?? said(value) }));
  }
  const among = schema.oneOf ?? schema.anyOf ?? [];
  if (among.length && among.every((one) => one.const !== undefined)) {
    return among.map((one) => ({ value: one.const, label: one.title ?? said(one.const) }));
  }
  return [];
}

function said(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function empty(kind: FieldKind): unknown {
  if (kind === "boolean") return false;
  if (kind === "several") return [];
  return "";
}

/** What stands in a field as its value; undefined when it was left empty. Throws what is wrong with it. */
export function valueOf(field: Field, filled: unknown): unknown {
  const { kind, schema } = field;
  if (kind === "boolean") return Boolean(filled);
  if (kind === "several") {
    const chosen = filled as unknown[];
    if (chosen.length < (schema.minItems ?? 0)) throw new Error(`choose at least ${schema.minItems}`);
    if (schema.maxItems !== undefined && chosen.length > schema.maxItems) throw new Error(`choose at most ${schema.maxItems}`);
    return chosen;
  }
  if (filled === "" || filled === undefined || filled === null) {
    if (field.required && !(kind === "text" && !schema.minLength)) throw new Error("is needed");
    return field.required ? "" : undefined;
  }
  if (kind === "number" || kind === "integer") return numberOf(kind, schema, filled);
  if (kind === "list") return String(filled).split("\n").map((one) => one.trim()).filter(Boolean);
  if (kind === "json") return typeof filled === "string" ? parsed(filled) : filled;
  if (kind === "text" || kind === "long") {
    const text = String(filled);
    if (text.length < (schema.minLength ?? 0)) throw new Error(`at least ${schema.minLength} characters`);
    if (schema.maxLength !== undefined && text.length > schema.maxLength) throw new Error(`at most ${schema.maxLength} characters`);
    return text;
  }
  return filled;
}

function numberOf(kind: FieldKind, schema: Schema, filled: unknown): number {
  const number = Number(filled);
  if (!Number.isFinite(number)) throw new Error("must be a number");
  if (kind === "integer" && !Number.isInteger(number)) throw new Error("must be a whole number");
  if (schema.minimum !== undefined && number < schema.minimum) throw new Error(`at least ${schema.minimum}`);
  if (schema.maximum !== undefined && number > schema.maximum) throw new Error(`at most ${schema.maximum}`);
  return number;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("must be JSON");
  }
}

/** The answer that a filled form gives, or what is wrong, by the name of the field. */
export function answerOf(
  schema: Schema,
  fields: readonly Field[],
  filled: Record<string, unknown>,
): { answer: unknown } | { problems: Record<string, string> } {
  const problems: Record<string, string> = {};
  const answer: Record<string, unknown> = {};
  for (const field of fields) {
    try {
      const value = valueOf(field, filled[field.name]);
      if (value !== undefined) answer[field.name] = value;
    } catch (error) {
      problems[field.name] = (error as Error).message;
    }
  }
  if (Object.keys(problems).length) return { problems };
  return { answer: schema.properties ? answer : answer[""] };
}
