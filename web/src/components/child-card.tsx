/** A child run, nested where it was sent from: seen live, or read from its own log when it is opened. */

import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import { withDrawing } from "../transcript/drawing";
import type { ChildView } from "../transcript/session-view";
import { isWhole, visibleBlocks } from "../transcript/session-view";
import { dollars, firstLine, leastCost, shortTokens, totalTokens } from "../text/format";
import { current } from "../state/open-session";
import { addressOf, goTo } from "../state/route";
import { BlockView } from "./item";
import { Icon } from "./icons";

/** Of a long child the last blocks are nested; all of it is in its own session. */
const LAST = 40;

export function ChildCard({ child, open: opensLive }: { child: ChildView; open: boolean }): JSX.Element {
  const [chosen, choose] = useState<boolean | null>(null);
  const id = useId();
  const open = chosen ?? (opensLive && child.status === "running");
  const view = child.view;
  const isRead = isWhole(view);
  useEffect(() => {
    if (open && !isRead) void current.value?.readChild(child.session);
  }, [open, isRead, child.session]);
  const said = view ? withDrawing(visibleBlocks(view), view.live.get("terminal:message")) : [];
  const blocks = said.filter((block) => block.kind !== "receipt" || block.status !== "completed");
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
          {totals && leastCost(totals) > 0 && ` · ${dollars(leastCost(totals))}`}
        </span>
        <a
          class="quiet small"
          href={addressOf(child.session)}
          aria-label="Open this child's session"
          title="Open its session"
          onClick={(event) => {
            event.preventDefault();
            goTo(child.session);
          }}
        >
          <Icon name="open" size={14} />
        </a>
      </div>
      {open && (
        <div id={id} class="child-body">
          {blocks.length > LAST && <p class="small-print">{blocks.length - LAST} earlier blocks are in its session.</p>}
          {blocks.slice(-LAST).map((block) => (
            <BlockView key={block.key} block={block} session={child.session} nested />
          ))}
          {!blocks.length && <p class="small-print">Nothing said yet.</p>}
          {child.reason && <p class="small-print">{child.reason}</p>}
        </div>
      )}
    </div>
  );
}
