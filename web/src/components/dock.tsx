/** The area below the transcript: the run, the queue, questions, extensions and the composer. */

import type { JSX } from "preact";
import { canAct } from "../state/app";
import { hasFallback } from "../state/fallback-models";
import type { OpenSession } from "../state/open-session";
import { duration } from "../text/format";
import { type SessionView, hasOpenQuestion } from "../transcript/session-view";
import { useNow } from "./clock";
import { Composer } from "./composer";
import { ExtensionStatus, Widgets } from "./extension-ui";
import { FallbackModels } from "./fallback-models";
import { Icon } from "./icons";
import { NoModel } from "./no-model";
import { PromptQueue } from "./prompt-queue";
import { QuestionPanel } from "./question-panel";

function activityOf(view: SessionView, now: number): string {
  const run = view.run;
  if (!run) return "";
  if (run.waiting === "paused") return "Paused";
  if (run.waiting === "question" || hasOpenQuestion(view)) return "Waiting for an answer";
  if (run.waiting === "pending") return "Waiting for a call that finishes later";
  if (run.retryAt > now) return `Retrying in ${Math.ceil((run.retryAt - now) / 1000)} s`;
  for (const item of view.items.toReversed()) {
    if (item.hidden) continue;
    if (item.kind === "user" || item.kind === "run_end") break;
    if (item.kind === "call" && item.stage === "writing") return `Writing a call of ${item.name}`;
    if (item.kind === "call" && item.stage === "running") return `Running ${item.name}`;
    if (item.kind === "call" && item.stage === "asking") return "Waiting for an answer";
    if (item.kind === "reasoning" && !item.complete && !item.seq) return "Thinking";
    if (item.kind === "text" && !item.complete && !item.seq) return "Answering";
  }
  return run.calling ? "Calling the model" : "Working";
}

/** The process of the run is gone, but the run has not ended. */
function InterruptedLine({ session }: { session: OpenSession }): JSX.Element {
  return (
    <div class="run-line" role="status">
      <Icon name="warning" size={15} />
      <span>This run was interrupted: its process is gone.</span>
      <span class="spring" />
      {canAct() && (
        <>
          <button type="button" class="quiet" onClick={() => void session.request({ type: "resume" })}>
            Resume
          </button>
          <button type="button" class="quiet stop-text" onClick={() => void session.request({ type: "cancel" })}>
            Stop
          </button>
        </>
      )}
    </div>
  );
}

function RunLine({ session }: { session: OpenSession }): JSX.Element | null {
  const view = session.view.value;
  const run = view.run;
  const now = useNow(run !== null);
  if (!run) return null;
  if (session.isInterrupted.value) return <InterruptedLine session={session} />;
  const elapsed = now - Date.parse(run.startedAt);
  const isPaused = run.waiting === "paused";
  return (
    <div class="run-line">
      {run.waiting || hasOpenQuestion(view) ? <Icon name="clock" size={15} /> : <span class="spinner" aria-hidden="true" />}
      <span>{activityOf(view, now)}</span>
      <span class="small-print">
        {run.step > 1 && `step ${run.step} · `}
        {elapsed >= 1000 && duration(Math.floor(elapsed / 1000) * 1000)}
      </span>
      <span class="spring" />
      {canAct() && (
        <>
          <button type="button" class="quiet" onClick={() => void session.request({ type: isPaused ? "resume" : "pause" })}>
            {isPaused ? "Resume" : "Pause"}
          </button>
          <button type="button" class="quiet stop-text" onClick={() => void session.request({ type: "cancel" })}>
            Stop
          </button>
        </>
      )}
    </div>
  );
}

/** After a run that did not complete: continue it, with another model if that one failed. */
function ContinueBar({ session }: { session: OpenSession }): JSX.Element | null {
  const { run, lastStatus, items, modelFailure } = session.view.value;
  if (run || !lastStatus || lastStatus === "completed" || !canAct() || !items.length) return null;
  return (
    <div class="continue-bar">
      <button type="button" onClick={() => void session.request({ type: "continue" })}>
        <Icon name="right" size={15} /> {lastStatus === "failed" ? "Try again" : "Continue"}
      </button>
      {hasFallback(modelFailure) && <FallbackModels key={modelFailure} session={session} failure={modelFailure} />}
    </div>
  );
}

export function Dock({ session }: { session: OpenSession }): JSX.Element {
  const view = session.view.value;
  return (
    <div class="dock">
      <div class="column">
        {view.storeFailure && <p class="notice error" role="alert">{view.storeFailure}</p>}
        {view.streamIncomplete && view.run && <p class="small-print">Messages appear when they are complete: {view.streamIncomplete}</p>}
        <ContinueBar session={session} />
        <RunLine session={session} />
        <PromptQueue session={session} />
        <QuestionPanel session={session} />
        <Widgets session={session} place="above" />
        {view.caughtUp && !view.model && <NoModel cwd={view.cwd} />}
        <Composer session={session} />
        <Widgets session={session} place="below" />
        <Widgets session={session} place="footer" />
        <ExtensionStatus session={session} />
      </div>
    </div>
  );
}
