/** The messages that wait for the run, and the commands that are running. */

import type { JSX } from "preact";
import type { WaitingRequest } from "../api/types";
import { canAct } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { firstLine } from "../text/format";
import { promptAttachments, promptText } from "../text/prompt";
import { restoreToComposer } from "./composer";
import { Icon } from "./icons";

function QueuedRequest({ request, session }: { request: WaitingRequest; session: OpenSession }): JSX.Element {
  const isCommand = request.type === "run_command";
  const text = isCommand ? `/${request.name ?? ""} ${request.arguments ?? ""}` : promptText(request.content ?? []);
  const files = promptAttachments(request.content ?? []).length;
  const edit = async (): Promise<void> => {
    if (await session.withdraw(request)) restoreToComposer(request.content ?? []);
  };
  return (
    <li>
      <span class={`badge ${request.type}`}>{isCommand ? "running" : request.type === "steer" ? "steer" : "next"}</span>
      <span class="waiting-text">
        {firstLine(text)}
        {files > 0 && ` (+${files} file${files === 1 ? "" : "s"})`}
      </span>
      {canAct() && !isCommand && (
        <>
          <button type="button" class="quiet small" aria-label="Edit" title="Edit" onClick={() => void edit()}>
            <Icon name="edit" size={14} />
          </button>
          <button type="button" class="quiet small" aria-label="Remove" title="Remove" onClick={() => void session.withdraw(request)}>
            <Icon name="close" size={14} />
          </button>
        </>
      )}
    </li>
  );
}

export function PromptQueue({ session }: { session: OpenSession }): JSX.Element | null {
  const waiting = session.waiting.value;
  const view = session.view.value;
  if (!waiting.length) return null;
  const isHeld = !view.run && view.promptsHeld && waiting.some((request) => request.type === "prompt");
  return (
    <section class="queue" aria-label="Queued messages">
      {isHeld && (
        <p>
          On hold, because the last run did not complete.
          <button type="button" class="quiet" onClick={() => void session.request({ type: "release_prompts" })}>
            Run them
          </button>
          <button type="button" class="quiet" onClick={() => void session.request({ type: "release_prompts", drop: true })}>
            Discard them
          </button>
        </p>
      )}
      <ul>
        {waiting.map((request) => (
          <QueuedRequest key={request.id} request={request} session={session} />
        ))}
      </ul>
    </section>
  );
}
