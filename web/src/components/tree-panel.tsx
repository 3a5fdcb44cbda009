/** The tree of a session: its branches, and the way to each entry. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type TreeEntry, api } from "../api/client";
import { attempt, canAct } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { firstLine } from "../text/format";
import { treeRows } from "../transcript/tree-rows";
import { Icon } from "./icons";
import { forkAt, labelEntry, navigateTo } from "./message-actions";

const TYPES: Record<string, string> = {
  user_message: "You",
  assistant_message: "Answer",
  compacted: "Summary",
  branch_collapsed: "Summary of a branch",
  tool_result: "Result",
  tool_called: "Call",
};

export function TreePanel({ session }: { session: OpenSession }): JSX.Element {
  const [tree, setTree] = useState<{ leaf: number; entries: TreeEntry[] } | null>(null);
  const { leaf, labels } = session.view.value;
  useEffect(() => {
    const timer = setTimeout(() => {
      void attempt(() => api.tree(session.id)).then((response) => response && setTree(response));
    }, tree ? 400 : 0);
    return () => clearTimeout(timer);
  }, [session.id, leaf, labels]);
  if (!tree) return <p class="hint">…</p>;
  const rows = treeRows(tree.entries, leaf);
  if (!rows.length) return <p class="hint">No messages yet.</p>;
  const move = (event: KeyboardEvent): void => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(".branch-go")];
    const at = all.indexOf(document.activeElement as HTMLElement);
    all[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    event.preventDefault();
  };
  return (
    <ol class="branches" onKeyDown={move}>
      {rows.map(({ entry, depth, isOnPath, isLeaf, branches }) => (
        <li key={entry.seq} class={`${isOnPath ? "on-path" : ""}${isLeaf ? " leaf" : ""}`} style={{ paddingInlineStart: `${Math.min(depth, 8) * 14}px` }} aria-current={isLeaf ? "true" : undefined}>
          <button type="button" class="branch-go" disabled={!canAct()} title="Go to this entry" onClick={() => void navigateTo(entry.seq)}>
            <span class={`kind ${entry.type}`}>{TYPES[entry.type] ?? entry.type.replace(/_/g, " ")}</span>
            {(labels.get(entry.seq) ?? entry.label) && <span class="badge label">{labels.get(entry.seq) ?? entry.label}</span>}
            <span class="branch-text">{firstLine((entry.text ?? "").replace(/[#*`>]+ ?/g, ""), 120)}</span>
            {branches > 1 && <span class="ways">{branches} branches</span>}
          </button>
          {canAct() && (
            <span class="branch-actions">
              <button type="button" class="quiet small" aria-label="Label" title="Label" onClick={() => void labelEntry(entry.seq)}>
                <Icon name="label" size={14} />
              </button>
              <button type="button" class="quiet small" aria-label="Fork here" title="Fork here" onClick={() => void forkAt(entry.seq)}>
                <Icon name="fork" size={14} />
              </button>
            </span>
          )}
        </li>
      ))}
    </ol>
  );
}
