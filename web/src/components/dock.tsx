/** Below the conversation: what runs, what waits, what is asked, what extensions show, and the line to write in. */

import type { JSX } from "preact";
import { attachedParts, typedText } from "../text/parts-of-prompt";
import { canBeRescued } from "../state/fallback-models";
import type { SessionView } from "../transcript/session-view";
import { elapsed, firstLine } from "../text/format";
import { mayAct } from "../state/app";
import type { OpenSession } from "../state/open-session";
import type { WaitingRequest } from "../api/types";
import { Composer, writeAgain } from "./composer";
import { Icon } from "./icons";
import { NoModel } from "./no-model";
import { Questions } from "./question-panel";
import { Rescuers } from "./fallback-models";
import { useNow } from "./clock";
import { Statuses, Widgets } from "./widgets";

export function activityOf(view: SessionView, now: number): string {
  const run = view.run;
  if (!run) return "";
  if (run.waiting === "paused") return "Paused";
  if (run.waiting === "question" || view.questions.length) return "Waits for an answer";
  if (run.waiting === "pending") return "Waits for a call that finishes later";
  if (run.retryAt > now) return `Tries again in ${Math.ceil((run.retryAt - now) / 1000)} s`;
  for (let at = view.blocks.length - 1; at >= 0; at -= 1) {
    const block = view.blocks[at];
    if (!block || block.kind === "user" || block.kind === "receipt") break;
    if (block.kind === "tool" && block.stage === "writing") return `Writes a call of ${block.name}`;
    if (block.kind === "tool" && block.stage === "running") return `Runs ${block.name}`;
    if (block.kind === "tool" && block.stage === "asking") return "Waits for an answer";
    if (block.kind === "reasoning" && block.writing) return "Thinks";
    if (block.kind === "text" && block.writing) return "Answers";
  }
  return run.calling ? "Asks the model" : "Works";
}

/** The process that drove the run is gone; the run is not. */
function CutLine({ session }: { session: OpenSession }): JSX.Element {
  return (
    <div class="run-line" role="status">
      <Icon name="warning" size={15} />
      <span>This run was cut off: nobody works on it.</span>
      <span class="spring" />
      {mayAct() && (
        <>
          <button type="button" class="quiet" onClick={() => void session.request({ type: "resume" })}>
            Go on
          </button>
          <button type="button" class="quiet stop-word" onClick={() => void session.request({ type: "cancel" })}>
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
  if (session.isCut.value) return <CutLine session={session} />;
  const spent = now - Date.parse(run.startedAt);
  const isPaused = run.waiting === "paused";
  return (
    <div class="run-line">
      {run.waiting || view.questions.length ? <Icon name="clock" size={15} /> : <span class="spinner" aria-hidden="true" />}
      <span>{activityOf(view, now)}</span>
      <span class="small-print">
        {run.step > 1 && `step ${run.step} · `}
        {spent >= 1000 && elapsed(Math.floor(spent / 1000) * 1000)}
      </span>
      <span class="spring" />
      {mayAct() && (
        <>
          <button type="button" class="quiet" onClick={() => void session.request({ type: isPaused ? "resume" : "pause" })}>
            {isPaused ? "Go on" : "Pause"}
          </button>
          <button type="button" class="quiet stop-word" onClick={() => void session.request({ type: "cancel" })}>
            Stop
          </button>
        </>
      )}
    </div>
  );
}

function Waiting({ one, session }: { one: WaitingRequest; session: OpenSession }): JSX.Element {
  const isCommand = one.type === "run_command";
  const text = isCommand ? `/${one.name ?? ""} ${one.arguments ?? ""}` : typedText(one.content ?? []);
  const files = attachedParts(one.content ?? []).length;
  const edit = async (): Promise<void> => {
    if (await session.takeBack(one)) writeAgain(one.content ?? []);
  };
  return (
    <li>
      <span class={`badge ${one.type}`}>{isCommand ? "runs" : one.type === "steer" ? "steer" : "next"}</span>
      <span class="waiting-text">
        {firstLine(text)}
        {files > 0 && ` (+${files} file${files === 1 ? "" : "s"})`}
      </span>
      {mayAct() && !isCommand && (
        <>
          <button type="button" class="quiet small" aria-label="Take back to change it" title="Take back to change it" onClick={() => void edit()}>
            <Icon name="edit" size={14} />
          </button>
          <button type="button" class="quiet small" aria-label="Remove" title="Remove" onClick={() => void session.takeBack(one)}>
            <Icon name="close" size={14} />
          </button>
        </>
      )}
    </li>
  );
}

export function Queue({ session }: { session: OpenSession }): JSX.Element | null {
  const waiting = session.waiting.value;
  const view = session.view.value;
  if (!waiting.length) return null;
  const isHeld = !view.run && view.held && waiting.some((one) => one.type === "prompt");
  return (
    <section class="queue" aria-label="Waiting messages">
      {isHeld && (
        <p>
          These wait because the last run did not complete.
          <button type="button" class="quiet" onClick={() => void session.request({ type: "release_prompts" })}>
            Start them
          </button>
          <button type="button" class="quiet" onClick={() => void session.request({ type: "release_prompts", drop: true })}>
            Forget them
          </button>
        </p>
      )}
      <ul>
        {waiting.map((one) => (
          <Waiting key={one.id} one={one} session={session} />
        ))}
      </ul>
    </section>
  );
}

/** After a run that did not complete: go on from where it stopped, with another model if that has failed. */
function Again({ session }: { session: OpenSession }): JSX.Element | null {
  const { run, lastEnd, blocks, modelFailure } = session.view.value;
  if (run || !lastEnd || lastEnd === "completed" || !mayAct() || !blocks.length) return null;
  return (
    <div class="again">
      <button type="button" onClick={() => void session.request({ type: "continue" })}>
        <Icon name="right" size={15} /> {lastEnd === "failed" ? "Try again" : "Continue"}
      </button>
      {canBeRescued(modelFailure) && <Rescuers key={modelFailure} session={session} failure={modelFailure} />}
    </div>
  );
}

export function Dock({ session }: { session: OpenSession }): JSX.Element {
  const view = session.view.value;
  return (
    <div class="dock">
      <div class="column">
        {view.storeFailed && <p class="notice error" role="alert">{view.storeFailed}</p>}
        {view.incomplete && view.run && (
          <p class="small-print">Text appears when it is whole: {view.incomplete}</p>
        )}
        <Again session={session} />
        <RunLine session={session} />
        <Queue session={session} />
        <Questions session={session} />
        <Widgets session={session} place="above" />
        {view.caughtUp && !view.model && <NoModel cwd={view.cwd} />}
        <Composer session={session} />
        <Widgets session={session} place="below" />
        <Widgets session={session} place="footer" />
        <Statuses session={session} />
      </div>
    </div>
  );
}
