/** Changes of a text as rows: read from a unified diff, or made from what is replaced by what. */

export interface DiffLine {
  kind: "same" | "added" | "removed" | "gap";
  text: string;
  /** Numbers of the line before and after; 0 where it has none. */
  before: number;
  after: number;
}

export interface DiffRow {
  left: DiffLine | null;
  right: DiffLine | null;
}

export function readUnified(diff: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let before = 0;
  let after = 0;
  let isInside = false;
  const rows = diff.split("\n");
  if (rows.at(-1) === "") rows.pop();
  for (const row of rows) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/.exec(row);
    if (head) {
      before = Number(head[1]);
      after = Number(head[2]);
      if (isInside || before > 1 || after > 1) {
        lines.push({ kind: "gap", text: (head[3] ?? "").trim(), before: 0, after: 0 });
      }
      isInside = true;
    } else if (!isInside) {
      continue;
    } else if (row.startsWith("+")) {
      lines.push({ kind: "added", text: row.slice(1), before: 0, after });
      after += 1;
    } else if (row.startsWith("-")) {
      lines.push({ kind: "removed", text: row.slice(1), before, after: 0 });
      before += 1;
    } else if (row.startsWith("\\")) {
      continue;
    } else {
      lines.push({ kind: "same", text: row.slice(1), before, after });
      before += 1;
      after += 1;
    }
  }
  return lines;
}

/** Old and new text of one replacement, as far as they are known: lines that agree at both ends are kept. */
export function replacementLines(oldText: string, newText: string, isWhole: boolean): DiffLine[] {
  const old = oldText.split("\n");
  const now = newText.split("\n");
  let first = 0;
  while (first < old.length && first < now.length && old[first] === now[first]) first += 1;
  let last = 0;
  while (isWhole && last < old.length - first && last < now.length - first && old.at(-1 - last) === now.at(-1 - last)) {
    last += 1;
  }
  const same = (text: string): DiffLine => ({ kind: "same", text, before: 0, after: 0 });
  return [
    ...old.slice(0, first).map(same),
    ...old.slice(first, old.length - last).map((text): DiffLine => ({ kind: "removed", text, before: 0, after: 0 })),
    ...now.slice(first, now.length - last).map((text): DiffLine => ({ kind: "added", text, before: 0, after: 0 })),
    ...old.slice(old.length - last).map(same),
  ];
}

/** The edits of a call that is still being written. */
export function editLines(edits: unknown, isWhole: boolean): DiffLine[] {
  if (!Array.isArray(edits)) return [];
  return edits.flatMap((edit: { old_text?: string; new_text?: string } | null, place) => {
    if (!edit || typeof edit.old_text !== "string") return [];
    const gap: DiffLine[] = place ? [{ kind: "gap", text: "", before: 0, after: 0 }] : [];
    const isDone = isWhole || place < edits.length - 1;
    if (edit.new_text === undefined) {
      const rows = edit.old_text.split("\n");
      return [...gap, ...rows.map((text): DiffLine => ({ kind: isDone ? "removed" : "same", text, before: 0, after: 0 }))];
    }
    return [...gap, ...replacementLines(edit.old_text, edit.new_text, isDone)];
  });
}

/** Side by side: what was removed stands beside what came for it. */
export function sideBySide(lines: readonly DiffLine[]): DiffRow[] {
  const rows: DiffRow[] = [];
  let removed: DiffLine[] = [];
  let added: DiffLine[] = [];
  const flush = (): void => {
    for (let place = 0; place < Math.max(removed.length, added.length); place += 1) {
      rows.push({ left: removed[place] ?? null, right: added[place] ?? null });
    }
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === "removed") {
      if (added.length) flush();
      removed.push(line);
    } else if (line.kind === "added") {
      added.push(line);
    } else {
      flush();
      rows.push({ left: line, right: line });
    }
  }
  flush();
  return rows;
}

/** Where two lines differ: [start, end of the first, end of the second]; null when little of them is alike. */
export function differingPart(one: string, other: string): [number, number, number] | null {
  const most = Math.min(one.length, other.length);
  let start = 0;
  while (start < most && one[start] === other[start]) start += 1;
  let end = 0;
  while (end < most - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  const alike = start + end;
  const indent = /^\s*/.exec(one)?.[0].length ?? 0;
  if (alike - indent < Math.max(one.length, other.length) * 0.3) return null;
  return [start, one.length - end, other.length - end];
}

export function counts(lines: readonly DiffLine[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of lines) {
    if (line.kind === "added") added += 1;
    else if (line.kind === "removed") removed += 1;
  }
  return { added, removed };
}
