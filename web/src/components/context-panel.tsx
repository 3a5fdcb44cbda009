/** What the model is told, how much of it there is, and why; and what it has cost. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { SummaryBlock } from "../transcript/session-view";
import { dollars, leastCost, shortTokens, totalTokens } from "../text/format";
import { mayAct, overlay } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { api } from "../api/client";
import { contextOf } from "./meters";

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
  told: "Told in all",
  reserve: "Kept for the answer",
  free: "Free",
};

function Bar({ parts, window }: { parts: { name: string; tokens: number }[]; window: number }): JSX.Element {
  return (
    <div class="context-bar" role="img" aria-label="Shares of the context">
      {parts.map(({ name, tokens }) => (
        <span key={name} class={`part ${name}`} style={{ width: `${(100 * tokens) / window}%` }} />
      ))}
    </div>
  );
}

/** A fence in words: its kind, its tokens, and whether it was cut. */
function fenceWords(fence: unknown): string {
  if (Array.isArray(fence)) return `${fence[0]}: ${shortTokens(Number(fence[1]))}${fence[2] ? ", cut" : ""}`;
  const { kind = "", tokens = 0, cut = false } = (fence ?? {}) as { kind?: string; tokens?: number; cut?: boolean };
  return `${kind}: ${shortTokens(tokens)}${cut ? ", cut" : ""}`;
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
  const [answer, setAnswer] = useState<Trace | null>(null);
  const view = session.view.value;
  const step = `${view.run?.id}/${view.run?.step}/${view.usage.input_tokens}`;
  useEffect(() => {
    let isGone = false;
    api.context(session.id).then(
      (found) => isGone || setAnswer(found as Trace),
      () => isGone || setAnswer(null),
    );
    return () => {
      isGone = true;
    };
  }, [session.id, step]);
  const { used, window } = contextOf(session);
  const trace = answer;
  const parts = trace?.parts ?? [];
  const undoable = session.blocks.value.findLast((block): block is SummaryBlock => block.kind === "summary" && block.undoable);
  const usage = view.usage;
  const children = view.childrenUsage.reduce((sum, one) => sum + leastCost(one), 0);
  const cost = usage.cost == null ? null : usage.cost + children;
  const childTokens = view.childrenUsage.reduce((sum, one) => sum + totalTokens(one.usage), 0);
  return (
    <>
      <h3>In the window</h3>
      {parts.length > 0 && <Bar parts={parts} window={trace?.window || window || 1} />}
      <dl class="figures">
        <Row name="In use" value={window ? `${shortTokens(used)} of ${shortTokens(window)}` : shortTokens(used)} />
        {parts.map(({ name, tokens }) => <Row key={name} name={PARTS[name] ?? name} value={shortTokens(tokens)} mark={name} />)}
        {trace?.messages?.length === 2 && <Row name="Messages told" value={`${trace.messages[0]} of ${trace.messages[1]}`} />}
        {trace?.reminders && trace.reminders.length > 0 && <Row name="Reminded of" value={trace.reminders.join(", ")} />}
        {trace?.counted && trace.counted.length > 0 && <Row name="Counted by" value={trace.counted.join(", ")} />}
      </dl>
      {mayAct() && used > 0 && (
        <button type="button" onClick={() => void session.request({ type: "compact" })}>
          Summarise earlier messages
        </button>
      )}
      {mayAct() && !view.run && undoable && (
        <button type="button" onClick={() => void session.request({ type: "undo_compaction", compaction: undoable.seq })}>
          Undo the last summary
        </button>
      )}
      {trace?.decisions && trace.decisions.length > 0 && (
        <>
          <h3>Left out or shortened</h3>
          <ul class="decisions">
            {trace.decisions.map((one) => (
              <li>
                {one.first === one.last ? `#${one.first}` : `#${one.first}–${one.last}`} {one.action} by <code>{one.rule}</code>: {shortTokens(one.before)} → {shortTokens(one.after)}
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
              <li>{fenceWords(fence)}</li>
            ))}
            {(trace.fences_left_out ?? []).map(([kind, size]) => (
              <li>
                {kind}: {shortTokens(size)}, left out
              </li>
            ))}
          </ul>
        </>
      )}
      <h3>Used in this session</h3>
      <dl class="figures">
        <Row name="Input" value={shortTokens(usage.input_tokens ?? 0)} />
        <Row name="From the cache" value={shortTokens(usage.cache_read_tokens ?? 0)} />
        {usage.cache_write_tokens ? <Row name="Into the cache" value={shortTokens(usage.cache_write_tokens)} /> : null}
        <Row name="Output" value={shortTokens(usage.output_tokens ?? 0)} />
        {usage.reasoning_tokens ? <Row name="of it reasoning" value={shortTokens(usage.reasoning_tokens)} /> : null}
        {childTokens > 0 && <Row name="Children" value={shortTokens(childTokens)} />}
        <Row name="Cost" value={cost === null ? "not known" : dollars(cost)} />
      </dl>
      <button type="button" class="quiet" onClick={() => { overlay.value = "usage"; }}>
        Usage of all sessions
      </button>
      {answer && (
        <details>
          <summary>The whole trace</summary>
          <pre class="trace">{JSON.stringify(answer, null, 1)}</pre>
        </details>
      )}
    </>
  );
}
