/** A diff: side by side where there is room, else in one column. */

import type { JSX } from "preact";
import { memo } from "./memo";
import { useMemo } from "preact/hooks";
import { type DiffLine, type DiffRow, differingPart, sideBySide } from "../text/diff";
import type { Piece } from "../text/highlight";
import { Pieces, useHighlightedLines } from "./code";
import { isWide } from "./width";

type Coloured = Map<DiffLine, Piece[]>;

function emphasised(pieces: Piece[], start: number, end: number): Piece[] {
  const made: Piece[] = [];
  let at = 0;
  for (const piece of pieces) {
    const cuts = [0, start - at, end - at, piece.text.length].map((one) => Math.min(piece.text.length, Math.max(0, one)));
    cuts.slice(0, -1).forEach((from, place) => {
      const text = piece.text.slice(from, cuts[place + 1]);
      if (text) made.push({ text, classes: place === 1 ? `${piece.classes} changed` : piece.classes });
    });
    at += piece.text.length;
  }
  return made;
}

function useColours(lines: readonly DiffLine[], language: string): Coloured {
  const side = (without: string): DiffLine[] => lines.filter((line) => line.kind !== without && line.kind !== "gap");
  const old = useMemo(() => side("added"), [lines]);
  const now = useMemo(() => side("removed"), [lines]);
  const oldPieces = useHighlightedLines(useMemo(() => old.map((line) => line.text).join("\n"), [old]), language);
  const nowPieces = useHighlightedLines(useMemo(() => now.map((line) => line.text).join("\n"), [now]), language);
  return useMemo(() => {
    const found: Coloured = new Map();
    old.forEach((line, place) => oldPieces?.[place] && found.set(line, oldPieces[place]));
    now.forEach((line, place) => nowPieces?.[place] && found.set(line, nowPieces[place]));
    return found;
  }, [old, now, oldPieces, nowPieces]);
}

function Text({ line, other, coloured }: { line: DiffLine; other: DiffLine | null; coloured: Coloured }): JSX.Element {
  const pieces = coloured.get(line) ?? [{ text: line.text, classes: "" }];
  if (!other || line.kind === "same" || other.kind === "same") return <Pieces pieces={pieces} />;
  const isOld = line.kind === "removed";
  const part = isOld ? differingPart(line.text, other.text) : differingPart(other.text, line.text);
  if (!part) return <Pieces pieces={pieces} />;
  return <Pieces pieces={emphasised(pieces, part[0], isOld ? part[1] : part[2])} />;
}

const SIGNS = { added: "+", removed: "−", same: " ", gap: "" };
const SAID = { added: "added", removed: "removed", same: "", gap: "" };

function Cell({ line, other, coloured, number }: { line: DiffLine | null; other: DiffLine | null; coloured: Coloured; number: number }): JSX.Element {
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
        {SAID[line.kind] && <span class="visually-hidden">{SAID[line.kind]}: </span>}
        <Text line={line} other={other} coloured={coloured} />
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

/** In one column, what was removed comes before what came for it. */
function inOneColumn(rows: readonly DiffRow[]): { line: DiffLine; other: DiffLine | null }[] {
  const made: { line: DiffLine; other: DiffLine | null }[] = [];
  let added: typeof made = [];
  for (const { left, right } of rows) {
    if (left && left === right) {
      made.push(...added, { line: left, other: null });
      added = [];
      continue;
    }
    if (left) {
      if (added.length && !right) made.push(...added.splice(0));
      made.push({ line: left, other: right });
    }
    if (right) added.push({ line: right, other: left });
  }
  return [...made, ...added];
}

export const Diff = memo(function Diff({ lines, language }: { lines: readonly DiffLine[]; language: string }) {
  const rows = useMemo(() => sideBySide(lines), [lines]);
  const coloured = useColours(lines, language);
  const onlyAdded = lines.every((line) => line.kind === "added" || line.kind === "gap");
  const isSplit = isWide.value && !onlyAdded;
  const body = isSplit
    ? rows.map(({ left, right }) =>
        left?.kind === "gap" ? (
          <Gap text={left.text} columns={4} />
        ) : (
          <tr>
            <Cell line={left} other={right} coloured={coloured} number={left?.before ?? 0} />
            <Cell line={right} other={left} coloured={coloured} number={right?.after ?? 0} />
          </tr>
        ),
      )
    : inOneColumn(rows).map(({ line, other }) =>
        line.kind === "gap" ? (
          <Gap text={line.text} columns={2} />
        ) : (
          <tr>
            <Cell line={line} other={other} coloured={coloured} number={line.after || line.before} />
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
