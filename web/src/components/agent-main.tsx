/** A session whose agent is another vendor's. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { wordsOf } from "../text/command-line";
import { attempt, mayAct } from "../state/app";
import { type DrivenAgent, agentName } from "../state/agent-session";
import type { OpenSession } from "../state/open-session";
import { agentOf } from "../state/session-agent";
import { api } from "../api/client";
import { AgentComposer, nameFiles } from "./agent-composer";
import { AgentBadge, AgentPanes, ViewSwitch } from "./agent-panes";
import { Queue } from "./dock";
import { droppedFiles } from "./file-drop";
import { Header } from "./header";
import { Icon } from "./icons";
import { Questions } from "./question-panel";
import { Transcript } from "./item-list";
import { Statuses, Widgets } from "./widgets";

/** An agent that has ended can go on in the same session, if it is said how it is started. */
function StartAgain({ session, agent }: { session: OpenSession; agent: DrivenAgent }): JSX.Element | null {
  const [line, setLine] = useState("");
  const shown = session.shown.value?.agent;
  if (agent.state.value !== "ended" || !shown) return null;
  const start = (event: Event): void => {
    event.preventDefault();
    void attempt(() => api.startAgain(session.id, shown.remembered ? null : wordsOf(line))).then(() => session.look());
  };
  return (
    <form class="notice start-again" onSubmit={start}>
      <span>{agentName(agent.type.value)} has ended.</span>
      <span class="spring" />
      {mayAct() && !shown.remembered && <input type="text" aria-label="Command that starts it" placeholder="claude --continue" spellcheck={false} value={line} onInput={(event) => setLine(event.currentTarget.value)} />}
      {mayAct() && (
        <button type="submit" disabled={!shown.remembered && !line.trim()}>
          Start it again
        </button>
      )}
    </form>
  );
}

export function AgentMain({ session }: { session: OpenSession }): JSX.Element {
  const agent = agentOf(session);
  const view = session.view.value;
  return (
    <main class="main" {...droppedFiles((files) => void nameFiles(agent, [...files]))}>
      <Header session={session}>
        <AgentBadge agent={agent} />
        <ViewSwitch agent={agent} />
      </Header>
      <Widgets session={session} place="header" />
      <AgentPanes agent={agent}>
        <Transcript key={session.id} session={session} empty={<p>Say something to {agentName(agent.type.value)}.</p>} />
        <div class="dock">
          <div class="column">
            {view.storeFailed && <p class="notice error" role="alert">{view.storeFailed}</p>}
            <StartAgain session={session} agent={agent} />
            <Queue session={session} />
            <Questions session={session} />
            <AgentComposer agent={agent} />
            <Statuses session={session} />
          </div>
        </div>
      </AgentPanes>
      <div class="drop-sign" aria-hidden="true">
        <Icon name="attach" size={28} /> Drop the files here
      </div>
    </main>
  );
}
