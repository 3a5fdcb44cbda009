/** The composer for another vendor's agent: messages, or single keys. Files are mentioned by their path. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { AgentSession } from "../state/agent-session";
import { canAct, toast } from "../state/app";
import { composerText, focusComposer } from "../state/prompt-draft";
import { Icon } from "./icons";
import { KeyField } from "./key-field";
import { isPhone } from "./width";

/** Pixels. */
const MAX_HEIGHT = 400;

/** Uploads files and appends their paths to the message. */
export async function uploadFiles(agent: AgentSession, files: Iterable<File>): Promise<void> {
  for (const file of files) {
    try {
      const path = await agent.upload(file);
      composerText.value += ` @"${path}"`;
    } catch (error) {
      toast(`${file.name}: ${error instanceof Error ? error.message : String(error)}`, "error");
    }
  }
  focusComposer();
}

function placeholder(agent: AgentSession): string {
  if (!canAct()) return "Read-only access";
  switch (agent.state.value) {
    case "ended":
      return "The agent has ended.";
    case "starting":
      return agent.queues ? "Starting. Messages are queued…" : "Starting…";
    case "asking":
      return "The agent asks a question: answer it first.";
    case "running":
      return agent.queues ? "Working. Messages are queued…" : "Working…";
    default:
      return "Type a message…";
  }
}

/** Why no message can be sent now; empty if one can. */
function blockedReason(agent: AgentSession): string {
  const state = agent.state.value;
  if (!canAct()) return "Read-only access";
  if (state === "ended") return "The agent has ended.";
  if (agent.connection.value === "offline") return "Not connected.";
  if (state === "asking") return "The agent asks a question: answer it first.";
  if (state !== "stable" && !agent.queues) return "The agent is working: wait, or stop it.";
  return "";
}

export function AgentComposer({ agent }: { agent: AgentSession }): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const [mode, setMode] = useState<"text" | "control">("text");
  const [isSending, setSending] = useState(false);
  const text = composerText.value;
  const state = agent.state.value;
  const isRunning = state === "running" || state === "starting" || state === "asking";
  const reason = blockedReason(agent);
  const canSend = !reason && !isSending && text.trim() !== "";
  const takesKeys = Boolean(agent.terminal.value || agent.screen.value);
  const isGone = state === "ended" || !canAct();

  useLayoutEffect(() => {
    const field = area.current;
    if (!field) return;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, MAX_HEIGHT, innerHeight * 0.4)}px`;
  }, [text, mode]);
  useEffect(() => {
    const hasFocusElsewhere = document.activeElement !== document.body && document.activeElement !== null;
    if (state === "stable" && mode === "text" && !isPhone.value && !hasFocusElsewhere) area.current?.focus();
  }, [state, mode]);
  const toText = (): void => {
    setMode("text");
    setTimeout(focusComposer);
  };
  const send = async (): Promise<void> => {
    const draft = composerText.value;
    if (blockedReason(agent) || isSending || !draft.trim()) return;
    setSending(!agent.queues);
    composerText.value = "";
    const isAccepted = await agent.send(draft.trim());
    setSending(false);
    if (!isAccepted) composerText.value ||= draft;
  };
  const key = (event: KeyboardEvent): void => {
    if (event.isComposing || event.key !== "Enter" || event.shiftKey || event.altKey) return;
    if (isPhone.value && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    void send();
  };
  const modes = useRef<HTMLSpanElement>(null);
  const switchMode = (event: KeyboardEvent): void => {
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    modes.current?.querySelector<HTMLElement>("[aria-selected=false]")?.click();
  };
  const tab = (name: "text" | "control", label: string, title: string): JSX.Element => (
    <button type="button" role="tab" aria-selected={mode === name} tabIndex={mode === name ? 0 : -1} title={title} disabled={isGone} onClick={() => (name === "text" ? toText() : setMode("control"))}>
      {label}
    </button>
  );
  return (
    <form class="composer agent-composer" onSubmit={(event) => { event.preventDefault(); void send(); }}>
      {mode === "control" && !isGone ? (
        <KeyField agent={agent} leave={toText} />
      ) : (
        <textarea
          id="composer"
          ref={area}
          rows={1}
          value={text}
          disabled={isGone}
          placeholder={placeholder(agent)}
          aria-label="Message"
          onInput={(event) => { composerText.value = event.currentTarget.value; }}
          onKeyDown={key}
          onPaste={(event) => {
            const files = [...(event.clipboardData?.files ?? [])];
            if (!files.length) return;
            event.preventDefault();
            void uploadFiles(agent, files);
          }}
        />
      )}
      <div class="composer-row">
        <input ref={picker} type="file" multiple hidden onChange={(event) => { void uploadFiles(agent, [...(event.currentTarget.files ?? [])]); event.currentTarget.value = ""; }} />
        {mode === "text" && (
          <button type="button" class="quiet" aria-label="Upload files" title="Upload files for the agent" disabled={isGone} onClick={() => picker.current?.click()}>
            <Icon name="attach" />
          </button>
        )}
        {takesKeys && (
          <span class="modes" role="tablist" aria-label="Input mode" ref={modes} onKeyDown={switchMode}>
            {tab("text", "Text", "Send messages")}
            {tab("control", "Control", "Send single keys")}
          </span>
        )}
        <span class="spring" />
        {mode === "text" && text.trim() && reason && !isGone && <span class="small-print blocked-reason">{reason}</span>}
        {isRunning && canAct() && (
          <button type="button" class="send stop" aria-label="Stop" title="Interrupt the agent" onClick={() => agent.stop()}>
            <Icon name="stop" />
          </button>
        )}
        {mode === "text" && (!isRunning || (agent.queues && text.trim() !== "")) && (
          <button type="submit" class="send" disabled={!canSend} aria-label={isRunning ? "Queue" : "Send"} title={reason || (isRunning ? "Add to the queue (Enter)" : "Send (Enter)")}>
            {isSending ? <span class="spinner" aria-hidden="true" /> : <Icon name="send" />}
          </button>
        )}
      </div>
    </form>
  );
}
