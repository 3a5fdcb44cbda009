/** The fields of a form from its JSON Schema, and the answer from what was filled in. */

import type { Schema } from "../api/types";

export type FieldKind = "text" | "long" | "number" | "integer" | "boolean" | "choice" | "several" | "list" | "json";

export interface Field {
  name: string;
  label: string;
  help: string;
  kind: FieldKind;
  required: boolean;
  /** The values of a choice and their labels. */
  options: { value: unknown; label: string }[];
  initial: unknown;
  schema: Schema;
}

export function formFields(schema: Schema): Field[] {
  if (!schema.properties) return [fieldOf("", schema, true)];
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties).map(([name, property]) => fieldOf(name, property, required.has(name)));
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
  const types = Array.isArray(schema.type) ? schema.type.filter((type) => type !== "null") : [schema.type ?? ""];
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
    return schema.enum.map((value, index) => ({ value, label: schema.enumNames?.[index] ?? valueText(value) }));
  }
  const variants = schema.oneOf ?? schema.anyOf ?? [];
  if (variants.length && variants.every((variant) => variant.const !== undefined)) {
    return variants.map((variant) => ({ value: variant.const, label: variant.title ?? valueText(variant.const) }));
  }
  return [];
}

function valueText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function empty(kind: FieldKind): unknown {
  if (kind === "boolean") return false;
  if (kind === "several") return [];
  return "";
}

/** The value of a field; undefined if it is empty. Throws if the value is invalid. */
export function fieldValue(field: Field, filled: unknown): unknown {
  const { kind, schema } = field;
  if (kind === "boolean") return Boolean(filled);
  if (kind === "several") {
    const chosen = filled as unknown[];
    if (chosen.length < (schema.minItems ?? 0)) throw new Error(`choose at least ${schema.minItems}`);
    if (schema.maxItems !== undefined && chosen.length > schema.maxItems) throw new Error(`choose at most ${schema.maxItems}`);
    return chosen;
  }
  if (filled === "" || filled === undefined || filled === null) {
    if (field.required && !(kind === "text" && !schema.minLength)) throw new Error("is required");
    return field.required ? "" : undefined;
  }
  if (kind === "number" || kind === "integer") return numberOf(kind, schema, filled);
  if (kind === "list") return String(filled).split("\n").map((line) => line.trim()).filter(Boolean);
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

/** The answer of a form, or the problems by field name. */
export function formAnswer(
  schema: Schema,
  fields: readonly Field[],
  filled: Record<string, unknown>,
): { answer: unknown } | { problems: Record<string, string> } {
  const problems: Record<string, string> = {};
  const answer: Record<string, unknown> = {};
  for (const field of fields) {
    try {
      const value = fieldValue(field, filled[field.name]);
      if (value !== undefined) answer[field.name] = value;
    } catch (error) {
      problems[field.name] = (error as Error).message;
    }
  }
  if (Object.keys(problems).length) return { problems };
  return { answer: schema.properties ? answer : answer[""] };
}
