/** The tree of a session as rows: branches are indented, a line of single children is not. */

import type { TreeEntry } from "../api/client";

export interface BranchRow {
  entry: TreeEntry;
  depth: number;
  isOnPath: boolean;
  isLeaf: boolean;
  /** How many ways go on from here. */
  ways: number;
}

const SHOWN = new Set(["user_message", "assistant_message", "compacted", "branch_collapsed", "history_replaced", "extension_entry"]);

export function branchRows(entries: readonly TreeEntry[], leaf: number): BranchRow[] {
  const bySeq = new Map(entries.map((entry) => [entry.seq, entry]));
  const children = new Map<number, TreeEntry[]>();
  for (const entry of entries) {
    const siblings = children.get(entry.parent);
    if (siblings) siblings.push(entry);
    else children.set(entry.parent, [entry]);
  }
  const path = new Set<number>();
  for (let at: number | undefined = leaf; at && !path.has(at); at = bySeq.get(at)?.parent) path.add(at);

  const rows: BranchRow[] = [];
  const stack: { entry: TreeEntry; depth: number }[] = [];
  const push = (parent: number, depth: number): void => {
    const ways = children.get(parent) ?? [];
    const deeper = ways.length > 1 ? 1 : 0;
    for (let place = ways.length - 1; place >= 0; place -= 1) {
      const entry = ways[place] as TreeEntry;
      stack.push({ entry, depth: depth + deeper });
    }
  };
  push(0, 0);
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { entry, depth } = next;
    const ways = children.get(entry.seq)?.length ?? 0;
    const isLeaf = entry.seq === leaf;
    if (isLeaf || entry.label || ways > 1 || (SHOWN.has(entry.type) && (entry.text ?? "").trim())) {
      rows.push({ entry, depth, isOnPath: path.has(entry.seq), isLeaf, ways });
    }
    push(entry.seq, depth);
  }
  return rows;
}
