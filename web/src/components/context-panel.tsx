/** The context of the model, what was left out and why, and the cost of the session. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import { canAct, overlay } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { dollars, knownCost, shortTokens, totalTokens } from "../text/format";
import type { SummaryItem } from "../transcript/items";
import { contextOf } from "./header";

interface Decision {
  first: number;
  last: number;
  action: string;
  rule: string;
  before: number;
  after: number;
}
interface Trace {
  step?: number;
  fits?: boolean;
  used?: number;
  window?: number;
  parts?: { name: string; tokens: number }[];
  counted?: string[];
  decisions?: Decision[];
  fences?: unknown[];
  fences_left_out?: [string, number][];
  messages?: number[];
  reminders?: string[];
  changed?: string;
}

const PARTS: Record<string, string> = {
  fixed: "System prompt and tools",
  fences: "Files and notes",
  reminders: "Reminders",
  messages: "Messages",
  told: "Total",
  reserve: "Reserved for the answer",
  free: "Free",
};

function Bar({ parts, window }: { parts: { name: string; tokens: number }[]; window: number }): JSX.Element {
  return (
    <div class="context-bar" role="img" aria-label="Parts of the context">
      {parts.map(({ name, tokens }) => (
        <span key={name} class={`part ${name}`} style={{ width: `${(100 * tokens) / window}%` }} />
      ))}
    </div>
  );
}

/** A context block: its kind, its tokens, and whether it was truncated. */
function fenceText(fence: unknown): string {
  if (Array.isArray(fence)) return `${fence[0]}: ${shortTokens(Number(fence[1]))}${fence[2] ? ", truncated" : ""}`;
  const { kind = "", tokens = 0, cut = false } = (fence ?? {}) as { kind?: string; tokens?: number; cut?: boolean };
  return `${kind}: ${shortTokens(tokens)}${cut ? ", truncated" : ""}`;
}

function Row({ name, value, mark }: { name: string; value: string; mark?: string }): JSX.Element {
  return (
    <div>
      <dt>
        {mark && <span class={`swatch ${mark}`} aria-hidden="true" />}
        {name}
      </dt>
      <dd>{value}</dd>
    </div>
  );
}

export function ContextPanel({ session }: { session: OpenSession }): JSX.Element {
  const [trace, setTrace] = useState<Trace | null>(null);
  const view = session.view.value;
  const step = `${view.run?.id}/${view.run?.step}/${view.usage.input_tokens}`;
  useEffect(() => {
    let isGone = false;
    api.context(session.id).then(
      (response) => isGone || setTrace(response as Trace),
      () => isGone || setTrace(null),
    );
    return () => {
      isGone = true;
    };
  }, [session.id, step]);
  const { used, window } = contextOf(session);
  const parts = trace?.parts ?? [];
  const undoable = session.items.value.findLast((item): item is SummaryItem => item.kind === "summary" && item.source === "compaction" && !item.undone);
  const usage = view.usage;
  const children = view.childrenUsage.reduce((sum, totals) => sum + knownCost(totals), 0);
  const cost = usage.cost == null ? null : usage.cost + children;
  const childTokens = view.childrenUsage.reduce((sum, totals) => sum + totalTokens(totals.usage), 0);
  return (
    <>
      <h3>Context window</h3>
      {parts.length > 0 && <Bar parts={parts} window={trace?.window || window || 1} />}
      <dl class="figures">
        <Row name="In use" value={window ? `${shortTokens(used)} of ${shortTokens(window)}` : shortTokens(used)} />
        {parts.map(({ name, tokens }) => <Row key={name} name={PARTS[name] ?? name} value={shortTokens(tokens)} mark={name} />)}
        {trace?.messages?.length === 2 && <Row name="Messages sent" value={`${trace.messages[0]} of ${trace.messages[1]}`} />}
        {trace?.reminders && trace.reminders.length > 0 && <Row name="Reminders" value={trace.reminders.join(", ")} />}
        {trace?.counted && trace.counted.length > 0 && <Row name="Counted by" value={trace.counted.join(", ")} />}
      </dl>
      {canAct() && used > 0 && (
        <button type="button" onClick={() => void session.request({ type: "compact" })}>
          Summarise earlier messages
        </button>
      )}
      {canAct() && !view.run && undoable && (
        <button type="button" onClick={() => void session.request({ type: "undo_compaction", compaction: undoable.seq })}>
          Undo the last summary
        </button>
      )}
      {trace?.decisions && trace.decisions.length > 0 && (
        <>
          <h3>Omitted or shortened</h3>
          <ul class="decisions">
            {trace.decisions.map(({ first, last, action, rule, before, after }) => (
              <li>
                {first === last ? `#${first}` : `#${first}–${last}`} {action} by <code>{rule}</code>: {shortTokens(before)} → {shortTokens(after)}
              </li>
            ))}
          </ul>
        </>
      )}
      {trace?.fences && trace.fences.length > 0 && (
        <>
          <h3>Files and notes</h3>
          <ul class="decisions">
            {trace.fences.map((fence) => (
              <li>{fenceText(fence)}</li>
            ))}
            {(trace.fences_left_out ?? []).map(([kind, size]) => (
              <li>
                {kind}: {shortTokens(size)}, omitted
              </li>
            ))}
          </ul>
        </>
      )}
      <h3>Usage of this session</h3>
      <dl class="figures">
        <Row name="Input" value={shortTokens(usage.input_tokens ?? 0)} />
        <Row name="Cache reads" value={shortTokens(usage.cache_read_tokens ?? 0)} />
        {usage.cache_write_tokens ? <Row name="Cache writes" value={shortTokens(usage.cache_write_tokens)} /> : null}
        <Row name="Output" value={shortTokens(usage.output_tokens ?? 0)} />
        {usage.reasoning_tokens ? <Row name="Reasoning" value={shortTokens(usage.reasoning_tokens)} /> : null}
        {childTokens > 0 && <Row name="Children" value={shortTokens(childTokens)} />}
        <Row name="Cost" value={cost === null ? "unknown" : dollars(cost)} />
      </dl>
      <button type="button" class="quiet" onClick={() => { overlay.value = "usage"; }}>
        Usage of all sessions
      </button>
      {trace && (
        <details>
          <summary>Full trace</summary>
          <pre class="trace">{JSON.stringify(trace, null, 1)}</pre>
        </details>
      )}
    </>
  );
}
