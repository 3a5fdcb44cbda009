/** A child run inside its parent: shown live, or read from its own log when it is opened. */

import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { current } from "../state/open-session";
import { addressOf, openSession } from "../state/route";
import { dollars, firstLine, knownCost, shortTokens, totalTokens } from "../text/format";
import { withLiveMessage } from "../transcript/answer-items";
import type { ChildItem } from "../transcript/items";
import { isWhole, visibleItems } from "../transcript/session-view";
import { Icon } from "./icons";
import { ItemView } from "./item";

/** The items of a long child that are shown here; its own session has all. */
const MAX_ITEMS = 40;

export function ChildCard({ item: child, opensLive }: { item: ChildItem; opensLive: boolean }): JSX.Element {
  const [choice, choose] = useState<boolean | null>(null);
  const id = useId();
  const open = choice ?? (opensLive && child.status === "running");
  const view = child.view;
  const isRead = isWhole(view);
  useEffect(() => {
    if (open && !isRead) void current.value?.readChild(child.session);
  }, [open, isRead, child.session]);
  const visible = view ? withLiveMessage(visibleItems(view), view.liveValues.get("terminal:message")) : [];
  const items = visible.filter((item) => item.kind !== "run_end" || item.status !== "completed");
  const totals = child.totals;
  return (
    <div class={`child ${child.status}`}>
      <div class="child-head">
        <button type="button" class="quiet" aria-expanded={open} aria-controls={id} onClick={() => choose(!open)}>
          <span class={open ? "chevron open" : "chevron"} aria-hidden="true">
            <Icon name="right" size={13} />
          </span>
          <Icon name="agent" size={15} />
          <strong>{child.agent || "subagent"}</strong>
          <span class="task">{firstLine(child.task, 120)}</span>
        </button>
        <span class={`status ${child.status}`}>
          {child.status === "running" ? <span class="spinner" aria-hidden="true" /> : null}
          {child.status}
          {totals && totalTokens(totals.usage) > 0 && ` · ${shortTokens(totalTokens(totals.usage))}`}
          {totals && knownCost(totals) > 0 && ` · ${dollars(knownCost(totals))}`}
        </span>
        <a
          class="quiet small"
          href={addressOf(child.session)}
          aria-label="Open this child's session"
          title="Open its session"
          onClick={(event) => {
            event.preventDefault();
            openSession(child.session);
          }}
        >
          <Icon name="open" size={14} />
        </a>
      </div>
      {open && (
        <div id={id} class="child-body">
          {items.length > MAX_ITEMS && <p class="small-print">{items.length - MAX_ITEMS} earlier items: open its session to read them.</p>}
          {items.slice(-MAX_ITEMS).map((item) => (
            <ItemView key={item.key} item={item} session={child.session} isNested />
          ))}
          {!items.length && <p class="small-print">No messages yet.</p>}
          {child.reason && <p class="small-print">{child.reason}</p>}
        </div>
      )}
    </div>
  );
}
