/** The rows of a session's tree: branches are indented, entries without siblings are not. */

import type { TreeEntry } from "../api/client";

export interface TreeRow {
  entry: TreeEntry;
  depth: number;
  isOnPath: boolean;
  isLeaf: boolean;
  /** How many branches start here. */
  branches: number;
}

const SHOWN = new Set(["user_message", "assistant_message", "compacted", "branch_collapsed", "history_replaced", "extension_entry"]);

export function treeRows(entries: readonly TreeEntry[], leaf: number): TreeRow[] {
  const bySeq = new Map(entries.map((entry) => [entry.seq, entry]));
  const children = new Map<number, TreeEntry[]>();
  for (const entry of entries) {
    const siblings = children.get(entry.parent);
    if (siblings) siblings.push(entry);
    else children.set(entry.parent, [entry]);
  }
  const path = new Set<number>();
  for (let at: number | undefined = leaf; at && !path.has(at); at = bySeq.get(at)?.parent) path.add(at);

  const rows: TreeRow[] = [];
  const stack: { entry: TreeEntry; depth: number }[] = [];
  const push = (parent: number, depth: number): void => {
    const branches = children.get(parent) ?? [];
    const indent = branches.length > 1 ? 1 : 0;
    for (const entry of branches.toReversed()) stack.push({ entry, depth: depth + indent });
  };
  push(0, 0);
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { entry, depth } = next;
    const branches = children.get(entry.seq)?.length ?? 0;
    const isLeaf = entry.seq === leaf;
    if (isLeaf || entry.label || branches > 1 || (SHOWN.has(entry.type) && (entry.text ?? "").trim())) {
      rows.push({ entry, depth, isOnPath: path.has(entry.seq), isLeaf, branches });
    }
    push(entry.seq, depth);
  }
  return rows;
}
