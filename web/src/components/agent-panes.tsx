/** Another vendor's agent: its conversation and its terminal, beside each other where there is room. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { store } from "../state/app";
import { type AgentShown, type DrivenAgent, agentName, agentShown, hasRoomForBoth, shownNow } from "../state/agent-session";
import "../agents.css";
import { Icon } from "./icons";
import { LiveTerminal } from "./live-terminal";

const ROOM = 840;

const WORDS = { unknown: "", starting: "starts", stable: "waits for you", running: "at work", ended: "ended" };

export function AgentBadge({ agent }: { agent: DrivenAgent }): JSX.Element {
  const isOffline = agent.connection.value === "offline";
  const state = isOffline ? "offline" : agent.state.value;
  const word = isOffline ? "offline" : WORDS[agent.state.value];
  return (
    <span class={`agent-badge ${state}`} role="status" title={isOffline ? "Not connected. It is tried again." : undefined}>
      <span class="agent-dot" aria-hidden="true" />
      <span class="agent-name">{agentName(agent.type.value)}</span>
      {word && <span class="agent-word">{word}</span>}
    </span>
  );
}

const VIEWS: [AgentShown, string, string][] = [
  ["chat", "thought", "Conversation"],
  ["both", "columns", "Both"],
  ["terminal", "terminal", "Terminal"],
];

export function ViewSwitch({ agent }: { agent: DrivenAgent }): JSX.Element | null {
  if (!agent.terminal.value && !agent.screen.value) return null;
  const now = shownNow();
  const choose = (view: AgentShown): void => {
    agentShown.value = view;
    store("agent-shown", view);
  };
  return (
    <span class="view-switch" role="group" aria-label="What is shown">
      {VIEWS.filter(([view]) => view !== "both" || hasRoomForBoth.value).map(([view, icon, name]) => (
        <button key={view} type="button" class="quiet" aria-pressed={now === view} title={name} onClick={() => choose(view)}>
          <Icon name={icon} size={16} />
          <span class="view-name">{name}</span>
        </button>
      ))}
    </span>
  );
}

export function AgentPanes({ agent, children }: { agent: DrivenAgent; children: ComponentChildren }): JSX.Element {
  const panes = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const one = panes.current;
    if (!one) return undefined;
    const observer = new ResizeObserver(() => { hasRoomForBoth.value = one.clientWidth >= ROOM; });
    observer.observe(one);
    return () => observer.disconnect();
  }, []);
  const hasTerminal = Boolean(agent.terminal.value || agent.screen.value);
  const now = hasTerminal ? shownNow() : "chat";
  return (
    <div class={`agent-panes shows-${now}`} ref={panes}>
      <section class="agent-chat" hidden={now === "terminal"}>
        {children}
      </section>
      {now !== "chat" && <LiveTerminal agent={agent} />}
    </div>
  );
}
