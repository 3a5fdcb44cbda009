/** A diff: two columns if there is room, else one. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { type DiffLine, type DiffRow, changedRange, sideBySide } from "../text/diff";
import type { CodeSpan } from "../text/highlight";
import { Spans, useHighlightedLines } from "./code";
import { memo } from "./memo";
import { isWide } from "./width";

type HighlightedLines = Map<DiffLine, CodeSpan[]>;

function withChange(spans: CodeSpan[], start: number, end: number): CodeSpan[] {
  const result: CodeSpan[] = [];
  let at = 0;
  for (const span of spans) {
    const cuts = [0, start - at, end - at, span.text.length].map((cut) => Math.min(span.text.length, Math.max(0, cut)));
    cuts.slice(0, -1).forEach((from, index) => {
      const text = span.text.slice(from, cuts[index + 1]);
      if (text) result.push({ text, classes: index === 1 ? `${span.classes} changed` : span.classes });
    });
    at += span.text.length;
  }
  return result;
}

function useHighlight(lines: readonly DiffLine[], language: string): HighlightedLines {
  const side = (without: string): DiffLine[] => lines.filter((line) => line.kind !== without && line.kind !== "gap");
  const old = useMemo(() => side("added"), [lines]);
  const fresh = useMemo(() => side("removed"), [lines]);
  const oldSpans = useHighlightedLines(useMemo(() => old.map((line) => line.text).join("\n"), [old]), language);
  const newSpans = useHighlightedLines(useMemo(() => fresh.map((line) => line.text).join("\n"), [fresh]), language);
  return useMemo(() => {
    const byLine: HighlightedLines = new Map();
    old.forEach((line, index) => oldSpans?.[index] && byLine.set(line, oldSpans[index]));
    fresh.forEach((line, index) => newSpans?.[index] && byLine.set(line, newSpans[index]));
    return byLine;
  }, [old, fresh, oldSpans, newSpans]);
}

function Text({ line, other, highlighted }: { line: DiffLine; other: DiffLine | null; highlighted: HighlightedLines }): JSX.Element {
  const spans = highlighted.get(line) ?? [{ text: line.text, classes: "" }];
  if (!other || line.kind === "same" || other.kind === "same") return <Spans spans={spans} />;
  const isOld = line.kind === "removed";
  const range = isOld ? changedRange(line.text, other.text) : changedRange(other.text, line.text);
  if (!range) return <Spans spans={spans} />;
  return <Spans spans={withChange(spans, range[0], isOld ? range[1] : range[2])} />;
}

const SIGNS = { added: "+", removed: "−", same: " ", gap: "" };
const LABELS = { added: "added", removed: "removed", same: "", gap: "" };

function Cell({ line, other, highlighted, number }: { line: DiffLine | null; other: DiffLine | null; highlighted: HighlightedLines; number: number }): JSX.Element {
  if (!line) {
    return (
      <>
        <td class="number" />
        <td class="nothing" />
      </>
    );
  }
  return (
    <>
      <td class={`number ${line.kind}`}>{number || ""}</td>
      <td class={line.kind}>
        <span class="sign" aria-hidden="true">
          {SIGNS[line.kind]}
        </span>
        {LABELS[line.kind] && <span class="visually-hidden">{LABELS[line.kind]}: </span>}
        <Text line={line} other={other} highlighted={highlighted} />
      </td>
    </>
  );
}

function Gap({ text, columns }: { text: string; columns: number }): JSX.Element {
  return (
    <tr class="gap">
      <td colSpan={columns}>{text || "⋯"}</td>
    </tr>
  );
}

/** One column: removed lines before those that replace them. */
function inOneColumn(rows: readonly DiffRow[]): { line: DiffLine; other: DiffLine | null }[] {
  const result: { line: DiffLine; other: DiffLine | null }[] = [];
  let added: typeof result = [];
  for (const { left, right } of rows) {
    if (left && left === right) {
      result.push(...added, { line: left, other: null });
      added = [];
      continue;
    }
    if (left) {
      if (added.length && !right) result.push(...added.splice(0));
      result.push({ line: left, other: right });
    }
    if (right) added.push({ line: right, other: left });
  }
  return [...result, ...added];
}

export const Diff = memo(function Diff({ lines, language }: { lines: readonly DiffLine[]; language: string }) {
  const rows = useMemo(() => sideBySide(lines), [lines]);
  const highlighted = useHighlight(lines, language);
  const onlyAdded = lines.every((line) => line.kind === "added" || line.kind === "gap");
  const isSplit = isWide.value && !onlyAdded;
  const body = isSplit
    ? rows.map(({ left, right }) =>
        left?.kind === "gap" ? (
          <Gap text={left.text} columns={4} />
        ) : (
          <tr>
            <Cell line={left} other={right} highlighted={highlighted} number={left?.before ?? 0} />
            <Cell line={right} other={left} highlighted={highlighted} number={right?.after ?? 0} />
          </tr>
        ),
      )
    : inOneColumn(rows).map(({ line, other }) =>
        line.kind === "gap" ? (
          <Gap text={line.text} columns={2} />
        ) : (
          <tr>
            <Cell line={line} other={other} highlighted={highlighted} number={line.after || line.before} />
          </tr>
        ),
      );
  return (
    <div class="diff-scroll" tabIndex={0} role="region" aria-label="Changes">
      <table class={isSplit ? "diff split" : "diff"}>
        <colgroup>
          <col class="number" />
          <col />
          {isSplit && <col class="number" />}
          {isSplit && <col />}
        </colgroup>
        <tbody>{body}</tbody>
      </table>
    </div>
  );
});
