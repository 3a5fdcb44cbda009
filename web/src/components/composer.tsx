/** The composer: text, attachments and commands, sent as a prompt or as a steer. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { PlainBlock } from "../api/types";
import { canAct, me, overlay, panel, toast } from "../state/app";
import {
  attach,
  attachBlocks,
  attachmentBlocks,
  attachmentProblem,
  attachments,
  detach,
  isUploading,
  releasePreviews,
  removeAttachments,
  restoreAttachments,
  upload,
} from "../state/attachments";
import type { OpenSession } from "../state/open-session";
import { composerText, focusComposer, promptsSent, restoreDraft } from "../state/prompt-draft";
import { type Suggestion, parseCommand } from "../text/prompt";
import { promptAttachments, promptText } from "../text/prompt";
import { Completion, useSuggestions } from "./completion";
import { Icon } from "./icons";
import { forkAt } from "./message-actions";
import { isPhone } from "./width";

function runPageCommand(session: OpenSession, name: string, rest: string): void {
  switch (name) {
    case "model":
      overlay.value = "model";
      return;
    case "compact":
      void session.request({ type: "compact", instructions: rest });
      return;
    case "rename":
      if (rest) void session.request({ type: "rename", title: rest });
      else overlay.value = "rename";
      return;
    case "fork":
      void forkAt(session.view.value.leaf);
      return;
    case "tree":
    case "context":
      panel.value = name;
      return;
    case "new":
    case "help":
      overlay.value = name;
  }
}

/** Puts a prompt back, before the present draft. */
export function restoreToComposer(content: readonly PlainBlock[]): void {
  composerText.value = [promptText(content), composerText.value].filter(Boolean).join("\n");
  attachBlocks(promptAttachments(content));
  focusComposer();
}

export function send(session: OpenSession, how: "prompt" | "steer"): void {
  const text = composerText.value.trim();
  const files = attachments.value;
  const problem = attachmentProblem(files);
  if (problem) return toast(problem, "warning");
  const blocks: PlainBlock[] = [...(text ? [{ type: "text" as const, text }] : []), ...attachmentBlocks(files)];
  if (!blocks.length) return;
  const typed = files.length ? null : parseCommand(text, session.commands.value);
  composerText.value = "";
  if (typed?.command.kind === "page") return runPageCommand(session, typed.command.name, typed.rest);
  removeAttachments(files);
  if (!session.view.value.run) promptsSent.value += 1;
  void session.request({ type: how, content: blocks }).then((sent) => {
    if (sent) return releasePreviews(files);
    restoreDraft(session.id, text);
    restoreAttachments(files);
  });
}

function Attachments(): JSX.Element | null {
  if (!attachments.value.length) return null;
  return (
    <ul class="attachments" aria-label="Attachments">
      {attachments.value.map((file) => (
        <li key={file.id} class={file.problem ? "chip failed" : "chip"} title={file.problem}>
          {file.preview ? <img src={file.preview} alt="" /> : <Icon name="file" size={15} />}
          <span>{file.name}</span>
          {isUploading(file) && <span class="spinner" aria-label="uploading" />}
          {file.problem && (
            <button type="button" class="quiet small" onClick={() => upload(file)}>
              Try again
            </button>
          )}
          <button type="button" class="quiet small" aria-label={`Remove ${file.name}`} onClick={() => detach(file)}>
            <Icon name="close" size={13} />
          </button>
        </li>
      ))}
    </ul>
  );
}

export function Composer({ session }: { session: OpenSession }): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const [marked, mark] = useState(0);
  const [closedFor, close] = useState("");
  const [recalled, recall] = useState(0);
  const text = composerText.value;
  const isRunning = session.view.value.run !== null;
  const [caret, setCaret] = useState(0);
  const suggested = useSuggestions(session, text, Math.min(caret, text.length));
  const suggestions = closedFor === text || recalled ? [] : suggested;
  const at = Math.min(marked, Math.max(0, suggestions.length - 1));
  const canSend = canAct() && (text.trim() !== "" || attachments.value.length > 0);

  useLayoutEffect(() => {
    const field = area.current;
    if (!field) return;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, innerHeight * 0.4)}px`;
  }, [text]);
  useEffect(() => {
    if (!isPhone.value) focusComposer();
  }, [session.id]);
  const returned = session.returnedPrompt.value;
  useEffect(() => {
    if (!returned) return;
    session.returnedPrompt.value = null;
    restoreToComposer(returned);
    toast("The run ended before the model received this message. It is back in the composer.");
  }, [returned]);

  const choose = ({ text, caret }: Suggestion): void => {
    composerText.value = text;
    setCaret(caret);
    mark(0);
    focusComposer();
    requestAnimationFrame(() => area.current?.setSelectionRange(caret, caret));
  };
  const recallPrompt = (step: number): void => {
    const prompts = session.items.value.flatMap((item) => (item.kind === "user" && item.source === "prompt" ? [promptText(item.content)] : []));
    const next = Math.max(0, Math.min(prompts.length, recalled + step));
    recall(next);
    composerText.value = next ? (prompts.at(-next) ?? "") : "";
  };
  const key = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    if (suggestions.length && ["ArrowDown", "ArrowUp", "Tab", "Escape"].includes(event.key)) {
      event.preventDefault();
      if (event.key === "Escape") close(text);
      else if (event.key === "Tab") choose(suggestions[at] as Suggestion);
      else mark((at + (event.key === "ArrowDown" ? 1 : suggestions.length - 1)) % suggestions.length);
      event.stopPropagation();
      return;
    }
    if (event.key === "Enter" && event.altKey) {
      event.preventDefault();
      const field = event.currentTarget as HTMLTextAreaElement;
      field.setRangeText("\n", field.selectionStart, field.selectionEnd, "end");
      composerText.value = field.value;
      setCaret(field.selectionStart);
    } else if (event.key === "Enter" && !event.shiftKey) {
      if (isPhone.value && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const suggestion = suggestions[at];
      if (suggestion && text.trim() !== suggestion.text.trim()) return choose(suggestion);
      recall(0);
      send(session, isRunning && (event.ctrlKey || event.metaKey) ? "steer" : "prompt");
    } else if (event.altKey && event.key === "s" && isRunning) {
      event.preventDefault();
      send(session, "steer");
    } else if (event.key === "ArrowUp" && (text === "" || recalled) && !event.shiftKey) {
      event.preventDefault();
      recallPrompt(1);
    } else if (event.key === "ArrowDown" && recalled && !event.shiftKey) {
      event.preventDefault();
      recallPrompt(-1);
    }
  };
  const paste = (event: ClipboardEvent): void => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    attach(files);
  };
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); send(session, "prompt"); }}>
      <Completion suggestions={suggestions} marked={at} choose={choose} />
      <Attachments />
      <textarea
        id="composer"
        ref={area}
        rows={1}
        value={text}
        disabled={!canAct()}
        placeholder={!canAct() ? "Read-only access" : isRunning ? "Queue the next prompt, or steer…" : "Ask, or describe a task…"}
        aria-label="Message"
        aria-autocomplete="list"
        aria-controls={suggestions.length ? "completion" : undefined}
        aria-activedescendant={suggestions.length ? `completion-${at}` : undefined}
        onInput={(event) => { composerText.value = event.currentTarget.value; setCaret(event.currentTarget.selectionStart); mark(0); }}
        onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
        onKeyDown={key}
        onPaste={paste}
      />
      <div class="composer-row">
        <input ref={picker} type="file" multiple hidden onChange={(event) => { attach(event.currentTarget.files ?? []); event.currentTarget.value = ""; }} />
        <button type="button" class="quiet" aria-label="Attach files" title="Attach files" disabled={!canAct()} onClick={() => picker.current?.click()}>
          <Icon name="attach" />
        </button>
        <button type="button" class="quiet model" disabled={!canAct()} onClick={() => { overlay.value = "model"; }} title="Model and reasoning">
          <span class="visually-hidden">Model:</span>
          <span class="model-name">{modelOf(session)}</span>
          {reasoningOf(session) && <small>{reasoningOf(session)}</small>}
        </button>
        <span class="spring" />
        {isRunning && canSend && (
          <button type="button" class="steer" onClick={() => send(session, "steer")} title="Send to the model before its next step (Ctrl+Enter)">
            Steer
          </button>
        )}
        {isRunning && !canSend ? (
          <button type="button" class="send stop" disabled={!canAct()} aria-label="Stop" title="Stop (Esc twice)" onClick={() => void session.request({ type: "cancel" })}>
            <Icon name="stop" />
          </button>
        ) : (
          <button type="submit" class="send" disabled={!canSend} aria-label={isRunning ? "Queue" : "Send"} title={isRunning ? "Queue as the next prompt (Enter)" : "Send (Enter)"}>
            <Icon name="send" />
          </button>
        )}
      </div>
    </form>
  );
}

export function modelOf(session: OpenSession): string {
  const { model, cwd } = session.view.value;
  const fallback = me.value?.cwd === cwd ? me.value.model : "";
  const name = model || session.details.value?.model || fallback || "default model";
  return name.split("/").at(-1) ?? name;
}

export function reasoningOf(session: OpenSession): string {
  return session.view.value.reasoning || session.details.value?.reasoning || "";
}
