/** What the model is told, how much of it there is, and why; and what it has cost. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { dollars, leastCost, shortTokens, totalTokens } from "../model/words";
import { mayAct } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { api } from "../wire/api";
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
  tokens?: Record<string, number>;
  counted?: string[];
  decisions?: Decision[];
  left?: number;
  fences?: [string, number, boolean][];
  fences_left_out?: [string, number][];
  messages?: [number, number];
  reminders?: string[];
}

const PARTS: [string, string][] = [
  ["fixed", "System prompt and tools"],
  ["fences", "Files and notes"],
  ["reminders", "Reminders"],
  ["messages", "Messages"],
];

function Bar({ tokens, window }: { tokens: Record<string, number>; window: number }): JSX.Element {
  return (
    <div class="context-bar" role="img" aria-label="Shares of the context">
      {PARTS.map(([name]) => (
        <span key={name} class={`part ${name}`} style={{ width: `${(100 * (tokens[name] ?? 0)) / window}%` }} />
      ))}
      <span class="part reserve" style={{ width: `${(100 * (tokens["reserve"] ?? 0)) / window}%` }} />
    </div>
  );
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

/** The trace of the last step, wherever the answer holds it. */
function traceIn(answer: Record<string, unknown> | null): Trace | null {
  const inner = answer?.["trace"];
  const found = (inner && typeof inner === "object" ? inner : answer) as Trace | null;
  return found?.tokens ? found : null;
}

export function ContextPanel({ session }: { session: OpenSession }): JSX.Element {
  const [answer, setAnswer] = useState<Record<string, unknown> | null>(null);
  const view = session.view.value;
  const step = `${view.run?.id}/${view.run?.step}/${view.usage.input_tokens}`;
  useEffect(() => {
    let isGone = false;
    api.context(session.id).then(
      (found) => isGone || setAnswer(found),
      () => isGone || setAnswer(null),
    );
    return () => {
      isGone = true;
    };
  }, [session.id, step]);
  const { used, window } = contextOf(session);
  const trace = traceIn(answer);
  const tokens = trace?.tokens;
  const usage = view.usage;
  const children = view.childrenUsage.reduce((sum, one) => sum + leastCost(one), 0);
  const cost = usage.cost == null ? null : usage.cost + children;
  const childTokens = view.childrenUsage.reduce((sum, one) => sum + totalTokens(one.usage), 0);
  return (
    <>
      <h3>In the window</h3>
      {tokens && <Bar tokens={tokens} window={tokens["window"] || window || 1} />}
      <dl class="figures">
        <Row name="In use" value={window ? `${shortTokens(used)} of ${shortTokens(window)}` : shortTokens(used)} />
        {tokens && PARTS.filter(([name]) => tokens[name]).map(([name, said]) => <Row key={name} name={said} value={shortTokens(tokens[name] ?? 0)} mark={name} />)}
        {tokens?.["reserve"] ? <Row name="Kept for the answer" value={shortTokens(tokens["reserve"])} mark="reserve" /> : null}
        {trace?.messages && <Row name="Messages told" value={`${trace.messages[0]} of ${trace.messages[1]}`} />}
        {trace?.counted && <Row name="Counted by" value={trace.counted.join(", ")} />}
      </dl>
      {mayAct() && used > 0 && (
        <button type="button" onClick={() => void session.request({ type: "compact" })}>
          Summarise earlier messages
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
      {trace?.fences && (
        <>
          <h3>Files and notes</h3>
          <ul class="decisions">
            {trace.fences.map(([kind, size, isCut]) => (
              <li>
                {kind}: {shortTokens(size)}
                {isCut && ", cut"}
              </li>
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
      {answer && (
        <details>
          <summary>The whole trace</summary>
          <pre class="trace">{JSON.stringify(answer, null, 1)}</pre>
        </details>
      )}
    </>
  );
}
