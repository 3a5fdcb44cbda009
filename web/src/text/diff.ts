/** Diffs as rows: parsed from a unified diff, or made from the edits of a call. */

export interface DiffLine {
  kind: "same" | "added" | "removed" | "gap";
  text: string;
  /** Line numbers before and after; 0: none. */
  before: number;
  after: number;
}

export interface DiffRow {
  left: DiffLine | null;
  right: DiffLine | null;
}

export function parseUnifiedDiff(diff: string): DiffLine[] {
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

/** The diff of one replacement, as far as it is written: equal lines at both ends are context. */
export function replacementDiff(oldText: string, newText: string, isWhole: boolean): DiffLine[] {
  const old = oldText.split("\n");
  const fresh = newText.split("\n");
  let first = 0;
  while (first < old.length && first < fresh.length && old[first] === fresh[first]) first += 1;
  let last = 0;
  while (isWhole && last < old.length - first && last < fresh.length - first && old.at(-1 - last) === fresh.at(-1 - last)) {
    last += 1;
  }
  const same = (text: string): DiffLine => ({ kind: "same", text, before: 0, after: 0 });
  return [
    ...old.slice(0, first).map(same),
    ...old.slice(first, old.length - last).map((text): DiffLine => ({ kind: "removed", text, before: 0, after: 0 })),
    ...fresh.slice(first, fresh.length - last).map((text): DiffLine => ({ kind: "added", text, before: 0, after: 0 })),
    ...old.slice(old.length - last).map(same),
  ];
}

/** The diff of the edits in a call that is still being written. */
export function editDiff(edits: unknown, isWhole: boolean): DiffLine[] {
  if (!Array.isArray(edits)) return [];
  return edits.flatMap((edit: { old_text?: string; new_text?: string } | null, index) => {
    if (!edit || typeof edit.old_text !== "string") return [];
    const gap: DiffLine[] = index ? [{ kind: "gap", text: "", before: 0, after: 0 }] : [];
    const isDone = isWhole || index < edits.length - 1;
    if (edit.new_text === undefined) {
      const rows = edit.old_text.split("\n");
      return [...gap, ...rows.map((text): DiffLine => ({ kind: isDone ? "removed" : "same", text, before: 0, after: 0 }))];
    }
    return [...gap, ...replacementDiff(edit.old_text, edit.new_text, isDone)];
  });
}

/** Two columns: removed lines beside the lines that replace them. */
export function sideBySide(lines: readonly DiffLine[]): DiffRow[] {
  const rows: DiffRow[] = [];
  let removed: DiffLine[] = [];
  let added: DiffLine[] = [];
  const flush = (): void => {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
      rows.push({ left: removed[index] ?? null, right: added[index] ?? null });
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

/** Where two lines differ: [start, end in the old, end in the new]; null if they have little in common. */
export function changedRange(old: string, fresh: string): [number, number, number] | null {
  const shorter = Math.min(old.length, fresh.length);
  let start = 0;
  while (start < shorter && old[start] === fresh[start]) start += 1;
  let end = 0;
  while (end < shorter - start && old[old.length - 1 - end] === fresh[fresh.length - 1 - end]) end += 1;
  const common = start + end;
  const indent = /^\s*/.exec(old)?.[0].length ?? 0;
  if (common - indent < Math.max(old.length, fresh.length) * 0.3) return null;
  return [start, old.length - end, fresh.length - end];
}

/** The groups of changed lines. */
export function countHunks(lines: readonly DiffLine[]): number {
  const isChange = ({ kind }: DiffLine): boolean => kind === "added" || kind === "removed";
  return lines.filter((line, index) => isChange(line) && !(index && isChange(lines[index - 1] as DiffLine))).length;
}

export function countChanges(lines: readonly DiffLine[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of lines) {
    if (line.kind === "added") added += 1;
    else if (line.kind === "removed") removed += 1;
  }
  return { added, removed };
}
