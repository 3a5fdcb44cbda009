/** A session of another vendor's agent. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { type AgentSession, agentName } from "../state/agent-session";
import { attempt, canAct } from "../state/app";
import { agentOf } from "../state/driven-session";
import type { OpenSession } from "../state/open-session";
import { splitCommandLine } from "../text/prompt";
import { AgentComposer, uploadFiles } from "./agent-composer";
import { AgentBadge, AgentPanes, ViewSwitch } from "./agent-panes";
import { ExtensionStatus, Widgets } from "./extension-ui";
import { fileDropProps } from "./file-drop";
import { Header } from "./header";
import { Icon } from "./icons";
import { ItemList } from "./item-list";
import { PromptQueue } from "./prompt-queue";
import { QuestionPanel } from "./question-panel";

/** Restarts an agent that has ended, in the same session. */
function RestartAgent({ session, agent }: { session: OpenSession; agent: AgentSession }): JSX.Element | null {
  const [line, setLine] = useState("");
  const info = session.details.value?.agent;
  if (agent.state.value !== "ended" || !info) return null;
  const start = (event: Event): void => {
    event.preventDefault();
    void attempt(() => api.restartAgent(session.id, info.remembered ? null : splitCommandLine(line))).then(() => session.refresh());
  };
  return (
    <form class="notice restart-agent" onSubmit={start}>
      <span>{agentName(agent.type.value)} has ended.</span>
      <span class="spring" />
      {canAct() && !info.remembered && <input type="text" aria-label="Start command" placeholder="claude --continue" spellcheck={false} value={line} onInput={(event) => setLine(event.currentTarget.value)} />}
      {canAct() && (
        <button type="submit" disabled={!info.remembered && !line.trim()}>
          Restart
        </button>
      )}
    </form>
  );
}

export function AgentMain({ session }: { session: OpenSession }): JSX.Element {
  const agent = agentOf(session);
  const view = session.view.value;
  return (
    <main class="main" {...fileDropProps((files) => void uploadFiles(agent, [...files]))}>
      <Header session={session}>
        <AgentBadge agent={agent} />
        <ViewSwitch agent={agent} />
      </Header>
      <Widgets session={session} place="header" />
      <AgentPanes agent={agent}>
        <ItemList key={session.id} session={session} empty={<p>Send a message to {agentName(agent.type.value)}.</p>} />
        <div class="dock">
          <div class="column">
            {view.storeFailure && <p class="notice error" role="alert">{view.storeFailure}</p>}
            <RestartAgent session={session} agent={agent} />
            <PromptQueue session={session} />
            <QuestionPanel session={session} />
            <AgentComposer agent={agent} />
            <ExtensionStatus session={session} />
          </div>
        </div>
      </AgentPanes>
      <div class="drop-sign" aria-hidden="true">
        <Icon name="attach" size={28} /> Drop files here
      </div>
    </main>
  );
}
