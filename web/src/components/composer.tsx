/** Where people write: text, attachments, commands; sent now, queued, or told to the running model. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Suggestion, commandIn } from "../text/prompt";
import { attachedParts, typedText } from "../text/parts-of-prompt";
import type { PlainBlock } from "../api/types";
import { attach, attachAgain, attachments, blocksOf, detach, forget, hindranceOf, isOnItsWay, putBack, takeOut, upload } from "../state/attachments";
import { mayAct, me, overlay, panel, toast } from "../state/app";
import { composerText, draftAgain, focusComposer, timesSent } from "../state/prompt-draft";
import type { OpenSession } from "../state/open-session";
import { Completion, useSuggestions } from "./completion";
import { forkAt } from "./message-actions";
import { Icon } from "./icons";
import { isPhone } from "./width";

function runOwn(session: OpenSession, name: string, rest: string): void {
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

/** What was sent, before what is being written. */
export function writeAgain(content: readonly PlainBlock[]): void {
  composerText.value = [typedText(content), composerText.value].filter(Boolean).join("\n");
  attachAgain(attachedParts(content));
  focusComposer();
}

export function send(session: OpenSession, how: "prompt" | "steer"): void {
  const text = composerText.value.trim();
  const files = attachments.value;
  const hindrance = hindranceOf(files);
  if (hindrance) return toast(hindrance, "warning");
  const blocks: PlainBlock[] = [...(text ? [{ type: "text" as const, text }] : []), ...blocksOf(files)];
  if (!blocks.length) return;
  const found = files.length ? null : commandIn(text, session.commands.value);
  composerText.value = "";
  if (found?.command.kind === "page") return runOwn(session, found.command.name, found.rest);
  takeOut(files);
  if (!session.view.value.run) timesSent.value += 1;
  void session.request({ type: how, content: blocks }).then((sent) => {
    if (sent) return forget(files);
    draftAgain(session.id, text);
    putBack(files);
  });
}

function Attachments(): JSX.Element | null {
  if (!attachments.value.length) return null;
  return (
    <ul class="attachments" aria-label="Attachments">
      {attachments.value.map((one) => (
        <li key={one.id} class={one.problem ? "chip failed" : "chip"} title={one.problem}>
          {one.preview ? <img src={one.preview} alt="" /> : <Icon name="file" size={15} />}
          <span>{one.name}</span>
          {isOnItsWay(one) && <span class="spinner" aria-label="on its way" />}
          {one.problem && (
            <button type="button" class="quiet small" onClick={() => upload(one)}>
              Try again
            </button>
          )}
          <button type="button" class="quiet small" aria-label={`Remove ${one.name}`} onClick={() => detach(one)}>
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
  const [isClosed, close] = useState("");
  const [recalled, recall] = useState(0);
  const text = composerText.value;
  const isRunning = session.view.value.run !== null;
  const [caret, setCaret] = useState(0);
  const suggested = useSuggestions(session, text, Math.min(caret, text.length));
  const found = isClosed === text || recalled ? [] : suggested;
  const at = Math.min(marked, Math.max(0, found.length - 1));
  const canSend = mayAct() && (text.trim() !== "" || attachments.value.length > 0);

  useLayoutEffect(() => {
    const one = area.current;
    if (!one) return;
    one.style.height = "auto";
    one.style.height = `${Math.min(one.scrollHeight + 2, innerHeight * 0.4)}px`;
  }, [text]);
  useEffect(() => {
    if (!isPhone.value) focusComposer();
  }, [session.id]);
  const back = session.givenBack.value;
  useEffect(() => {
    if (!back) return;
    session.givenBack.value = null;
    writeAgain(back);
    toast("The run ended before this was told: it is yours again.");
  }, [back]);

  const choose = (one: Suggestion): void => {
    composerText.value = one.text;
    setCaret(one.caret);
    mark(0);
    focusComposer();
    requestAnimationFrame(() => area.current?.setSelectionRange(one.caret, one.caret));
  };
  const older = (step: number): void => {
    const prompts = session.blocks.value.flatMap((block) => (block.kind === "user" && block.source === "prompt" ? [typedText(block.content)] : []));
    const next = Math.max(0, Math.min(prompts.length, recalled + step));
    recall(next);
    composerText.value = next ? (prompts.at(-next) ?? "") : "";
  };
  const key = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    if (found.length && ["ArrowDown", "ArrowUp", "Tab", "Escape"].includes(event.key)) {
      event.preventDefault();
      if (event.key === "Escape") close(text);
      else if (event.key === "Tab") choose(found[at] as Suggestion);
      else mark((at + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
      event.stopPropagation();
      return;
    }
    if (event.key === "Enter" && event.altKey) {
      event.preventDefault();
      const one = event.currentTarget as HTMLTextAreaElement;
      one.setRangeText("\n", one.selectionStart, one.selectionEnd, "end");
      composerText.value = one.value;
      setCaret(one.selectionStart);
    } else if (event.key === "Enter" && !event.shiftKey) {
      if (isPhone.value && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const one = found[at];
      if (one && text.trim() !== one.text.trim()) return choose(one);
      recall(0);
      send(session, isRunning && (event.ctrlKey || event.metaKey) ? "steer" : "prompt");
    } else if (event.altKey && event.key === "s" && isRunning) {
      event.preventDefault();
      send(session, "steer");
    } else if (event.key === "ArrowUp" && (text === "" || recalled) && !event.shiftKey) {
      event.preventDefault();
      older(1);
    } else if (event.key === "ArrowDown" && recalled && !event.shiftKey) {
      event.preventDefault();
      older(-1);
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
      <Completion found={found} marked={at} choose={choose} />
      <Attachments />
      <textarea
        id="composer"
        ref={area}
        rows={1}
        value={text}
        disabled={!mayAct()}
        placeholder={!mayAct() ? "You may look on." : isRunning ? "Queue the next prompt, or steer…" : "Ask, or describe what to do…"}
        aria-label="Message"
        aria-autocomplete="list"
        aria-controls={found.length ? "completion" : undefined}
        aria-activedescendant={found.length ? `completion-${at}` : undefined}
        onInput={(event) => { composerText.value = event.currentTarget.value; setCaret(event.currentTarget.selectionStart); mark(0); }}
        onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
        onKeyDown={key}
        onPaste={paste}
      />
      <div class="composer-row">
        <input ref={picker} type="file" multiple hidden onChange={(event) => { attach(event.currentTarget.files ?? []); event.currentTarget.value = ""; }} />
        <button type="button" class="quiet" aria-label="Attach files" title="Attach files" disabled={!mayAct()} onClick={() => picker.current?.click()}>
          <Icon name="attach" />
        </button>
        <button type="button" class="quiet model" disabled={!mayAct()} onClick={() => { overlay.value = "model"; }} title="Model and reasoning">
          <span class="visually-hidden">Model:</span>
          <span class="model-name">{modelOf(session)}</span>
          {reasoningOf(session) && <small>{reasoningOf(session)}</small>}
        </button>
        <span class="spring" />
        {isRunning && canSend && (
          <button type="button" class="steer" onClick={() => send(session, "steer")} title="Tell the model at its next step (Ctrl+Enter)">
            Steer
          </button>
        )}
        {isRunning && !canSend ? (
          <button type="button" class="send stop" disabled={!mayAct()} aria-label="Stop" title="Stop (Esc twice)" onClick={() => void session.request({ type: "cancel" })}>
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
  const usual = me.value?.cwd === cwd ? me.value.model : "";
  const name = model || session.shown.value?.model || usual || "default model";
  return name.split("/").at(-1) ?? name;
}

export function reasoningOf(session: OpenSession): string {
  return session.view.value.reasoning || session.shown.value?.reasoning || "";
}
