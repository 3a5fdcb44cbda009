/** Where people write to another vendor's agent: a message, or keys. Files are named by their path. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { mayAct, toast } from "../state/app";
import { composerText, focusComposer } from "../state/prompt-draft";
import type { DrivenAgent } from "../state/agent-session";
import { ControlField } from "./key-field";
import { Icon } from "./icons";
import { isPhone } from "./width";

const HIGHEST = 400;

/** Each file becomes a path at the end of what is being written. */
export async function nameFiles(agent: DrivenAgent, files: Iterable<File>): Promise<void> {
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

function placeholder(agent: DrivenAgent): string {
  if (!mayAct()) return "You may look on.";
  switch (agent.state.value) {
    case "ended":
      return "The agent has ended.";
    case "starting":
      return agent.queues ? "It starts. What you send now waits…" : "It starts…";
    case "running":
      return agent.queues ? "It is at work. What you send now waits its turn…" : "It is at work…";
    default:
      return "Type a message…";
  }
}

/** Why nothing can be sent now; empty when something can. */
function hindrance(agent: DrivenAgent): string {
  const state = agent.state.value;
  if (!mayAct()) return "You may look on.";
  if (state === "ended") return "The agent has ended.";
  if (agent.connection.value === "offline") return "Not connected.";
  if (state !== "stable" && !agent.queues) return "The agent is at work: wait, or stop it.";
  return "";
}

export function AgentComposer({ agent }: { agent: DrivenAgent }): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const [mode, setMode] = useState<"text" | "control">("text");
  const [isSending, setSending] = useState(false);
  const text = composerText.value;
  const state = agent.state.value;
  const isRunning = state === "running" || state === "starting";
  const why = hindrance(agent);
  const canSend = !why && !isSending && text.trim() !== "";
  const takesKeys = Boolean(agent.terminal.value || agent.screen.value);
  const isGone = state === "ended" || !mayAct();

  useLayoutEffect(() => {
    const one = area.current;
    if (!one) return;
    one.style.height = "auto";
    one.style.height = `${Math.min(one.scrollHeight + 2, HIGHEST, innerHeight * 0.4)}px`;
  }, [text, mode]);
  useEffect(() => {
    const isElsewhere = document.activeElement !== document.body && document.activeElement !== null;
    if (state === "stable" && mode === "text" && !isPhone.value && !isElsewhere) area.current?.focus();
  }, [state, mode]);
  const toText = (): void => {
    setMode("text");
    setTimeout(focusComposer);
  };
  const send = async (): Promise<void> => {
    const draft = composerText.value;
    if (hindrance(agent) || isSending || !draft.trim()) return;
    setSending(!agent.queues);
    composerText.value = "";
    const isTaken = await agent.send(draft.trim());
    setSending(false);
    if (!isTaken) composerText.value ||= draft;
  };
  const key = (event: KeyboardEvent): void => {
    if (event.isComposing || event.key !== "Enter" || event.shiftKey || event.altKey) return;
    if (isPhone.value && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    void send();
  };
  const modes = useRef<HTMLSpanElement>(null);
  const other = (event: KeyboardEvent): void => {
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    modes.current?.querySelector<HTMLElement>("[aria-selected=false]")?.click();
  };
  const tab = (name: "text" | "control", label: string, about: string): JSX.Element => (
    <button type="button" role="tab" aria-selected={mode === name} tabIndex={mode === name ? 0 : -1} title={about} disabled={isGone} onClick={() => (name === "text" ? toText() : setMode("control"))}>
      {label}
    </button>
  );
  return (
    <form class="composer agent-composer" onSubmit={(event) => { event.preventDefault(); void send(); }}>
      {mode === "control" && !isGone ? (
        <ControlField agent={agent} leave={toText} />
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
            void nameFiles(agent, files);
          }}
        />
      )}
      <div class="composer-row">
        <input ref={picker} type="file" multiple hidden onChange={(event) => { void nameFiles(agent, [...(event.currentTarget.files ?? [])]); event.currentTarget.value = ""; }} />
        {mode === "text" && (
          <button type="button" class="quiet" aria-label="Upload files" title="Upload files: the agent is told where they are" disabled={isGone} onClick={() => picker.current?.click()}>
            <Icon name="attach" />
          </button>
        )}
        {takesKeys && (
          <span class="modes" role="tablist" aria-label="What is sent" ref={modes} onKeyDown={other}>
            {tab("text", "Text", "Send messages")}
            {tab("control", "Control", "Send each key as it is pressed")}
          </span>
        )}
        <span class="spring" />
        {mode === "text" && text.trim() && why && !isGone && <span class="small-print why">{why}</span>}
        {isRunning && mayAct() && (
          <button type="button" class="send stop" aria-label="Stop" title="Interrupt the agent" onClick={() => agent.stop()}>
            <Icon name="stop" />
          </button>
        )}
        {mode === "text" && (!isRunning || (agent.queues && text.trim() !== "")) && (
          <button type="submit" class="send" disabled={!canSend} aria-label={isRunning ? "Queue" : "Send"} title={why || (isRunning ? "Send it when its turn comes (Enter)" : "Send (Enter)")}>
            {isSending ? <span class="spinner" aria-hidden="true" /> : <Icon name="send" />}
          </button>
        )}
      </div>
    </form>
  );
}
