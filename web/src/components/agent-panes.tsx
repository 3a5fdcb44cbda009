/** The conversation and the terminal of another vendor's agent, side by side if there is room. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { type AgentLayout, type AgentSession, agentLayout, agentName, currentLayout, fitsBoth } from "../state/agent-session";
import { store } from "../state/app";
import { Icon } from "./icons";
import { LiveTerminal } from "./live-terminal";
import "../agents.css";

/** Pixels. */
const MIN_WIDTH_FOR_BOTH = 840;

const STATES = { unknown: "", starting: "starting", stable: "ready", asking: "asking", running: "working", ended: "ended" };

export function AgentBadge({ agent }: { agent: AgentSession }): JSX.Element {
  const isOffline = agent.connection.value === "offline";
  const state = isOffline ? "offline" : agent.state.value;
  const word = isOffline ? "offline" : STATES[agent.state.value];
  return (
    <span class={`agent-badge ${state}`} role="status" title={isOffline ? "Not connected. Retrying…" : undefined}>
      <span class="agent-dot" aria-hidden="true" />
      <span class="agent-name">{agentName(agent.type.value)}</span>
      {word && <span class="agent-state">{word}</span>}
    </span>
  );
}

const VIEWS: [AgentLayout, string, string][] = [
  ["chat", "thought", "Conversation"],
  ["both", "columns", "Both"],
  ["terminal", "terminal", "Terminal"],
];

export function ViewSwitch({ agent }: { agent: AgentSession }): JSX.Element | null {
  if (!agent.terminal.value && !agent.screen.value) return null;
  const layout = currentLayout();
  const choose = (view: AgentLayout): void => {
    agentLayout.value = view;
    store("agent-shown", view);
  };
  return (
    <span class="view-switch" role="group" aria-label="Layout">
      {VIEWS.filter(([view]) => view !== "both" || fitsBoth.value).map(([view, icon, name]) => (
        <button key={view} type="button" class="quiet" aria-pressed={layout === view} title={name} onClick={() => choose(view)}>
          <Icon name={icon} size={16} />
          <span class="view-name">{name}</span>
        </button>
      ))}
    </span>
  );
}

export function AgentPanes({ agent, children }: { agent: AgentSession; children: ComponentChildren }): JSX.Element {
  const panes = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = panes.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => { fitsBoth.value = element.clientWidth >= MIN_WIDTH_FOR_BOTH; });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const hasTerminal = Boolean(agent.terminal.value || agent.screen.value);
  const layout = hasTerminal ? currentLayout() : "chat";
  return (
    <div class={`agent-panes shows-${layout}`} ref={panes}>
      <section class="agent-chat" hidden={layout === "terminal"}>
        {children}
      </section>
      {layout !== "chat" && <LiveTerminal agent={agent} />}
    </div>
  );
}
