/** How full the context is, and what the session has cost. */

import type { JSX } from "preact";
import { dollars, leastCost, shortTokens, totalTokens } from "../text/format";
import { panel } from "../state/app";
import type { OpenSession } from "../state/open-session";

const ROUND = 2 * Math.PI * 7;

export function contextOf(session: OpenSession): { used: number; window: number } {
  const shown = session.shown.value?.context;
  return { used: session.view.value.context || shown?.used || 0, window: shown?.window ?? 0 };
}

function Ring({ share }: { share: number }): JSX.Element {
  return (
    <svg class={`ring${share > 0.85 ? " full" : share > 0.65 ? " high" : ""}`} width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
      <circle cx="9" cy="9" r="7" class="track" />
      <circle cx="9" cy="9" r="7" class="used" stroke-dasharray={`${ROUND * Math.min(1, share)} ${ROUND}`} transform="rotate(-90 9 9)" />
    </svg>
  );
}

export function Meters({ session }: { session: OpenSession }): JSX.Element {
  const { used, window } = contextOf(session);
  const { usage, childrenUsage } = session.view.value;
  const tokens = totalTokens(usage) + childrenUsage.reduce((sum, one) => sum + totalTokens(one.usage), 0);
  const children = childrenUsage.reduce((sum, one) => sum + leastCost(one), 0);
  const cost = usage.cost == null ? null : usage.cost + children;
  const share = window ? used / window : 0;
  const about = window ? `Context: ${shortTokens(used)} of ${shortTokens(window)} tokens` : `Context: ${shortTokens(used)} tokens`;
  const spent = `${shortTokens(tokens)} tokens${cost === null ? "" : `, ${dollars(cost)}`} in this session`;
  return (
    <button type="button" class={window ? "meters quiet has-window" : "meters quiet"} aria-pressed={panel.value === "context"} title={`${about}\n${spent}`} onClick={() => { panel.value = panel.value === "context" ? "" : "context"; }}>
      <span class="visually-hidden">What the model is told. {about}.</span>
      {window > 0 && <Ring share={share} />}
      {window > 0 && <span class="share">{Math.round(share * 100)} %</span>}
      <span class="tokens">{shortTokens(tokens)} tokens</span>
      {cost !== null && <span class="cost">{dollars(cost)}</span>}
    </button>
  );
}
