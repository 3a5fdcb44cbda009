/** A tool call: its arguments while they are written, its output while it runs, then its result. */

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import type { ToolAppearance } from "../api/types";
import { current } from "../state/open-session";
import { callArguments, callIcon, callTitle } from "../text/format";
import { duration, firstLine } from "../text/format";
import type { CallItem } from "../transcript/items";
import { CallBody } from "./call-body";
import { ChildCard } from "./child-card";
import { useNow } from "./clock";
import { Lines, useRendered } from "./extension-ui";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { memo } from "./memo";
import { TerminalText } from "./terminal-text";

const COLOR = /^#[0-9a-f]{6}$/i;
const STAYS_CLOSED = new Set(["read", "search", "agent"]);

function opensByItself(item: CallItem): boolean {
  if (item.stage === "failed" || item.stage === "cancelled") return true;
  if (item.stage === "refused") return false;
  if (item.name === "todo") return item.stage === "done";
  if (item.toolKind === "edit" || item.name === "edit" || item.name === "write") return true;
  if (item.stage === "done" || item.stage === "abandoned") return item.toolKind === "execute" && !item.children.length && resultLines(item) <= 12;
  if (item.stage === "asking") return false;
  return !STAYS_CLOSED.has(item.toolKind);
}

function resultLines(item: CallItem): number {
  return (item.result?.content ?? []).reduce((sum, block) => sum + (block.type === "text" ? block.text.split("\n").length : 20), 0);
}

const STAGES: Record<string, string> = {
  writing: "being written",
  called: "waiting",
  asking: "needs your answer",
  running: "running",
  deferred: "finishes later",
  done: "done",
  failed: "failed",
  refused: "refused",
  cancelled: "cancelled",
  abandoned: "not finished",
  interrupted: "interrupted",
};
/** The stages that look like a failure. */
const FAILED = new Set(["failed", "refused", "cancelled"]);

function Status({ item, isInterrupted }: { item: CallItem; isInterrupted: boolean }): JSX.Element {
  const { result, stage, startedMs } = item;
  const isActive = !isInterrupted && (stage === "running" || stage === "writing");
  const now = useNow(isActive);
  const elapsed = isActive && startedMs ? now - startedMs : 0;
  const text = STAGES[isInterrupted && (stage === "running" || stage === "writing") ? "interrupted" : stage];
  const summary = result ? result.summary || (result.failed ?? "").replace(/_/g, " ") : "";
  return (
    <span class={`status ${classOf(stage)}`}>
      {isActive && <span class="spinner" aria-hidden="true" />}
      {stage === "done" && <Icon name="check" size={14} />}
      {FAILED.has(stage) && <Icon name="cross" size={14} />}
      {(stage === "asking" || stage === "deferred") && <Icon name="clock" size={14} />}
      <span class={summary ? "summary" : "summary stage"}>{summary ? firstLine(summary, 60) : text}</span>
      {elapsed > 2000 && <span class="time">{duration(elapsed)}</span>}
      {result && result.durationMs >= 1000 && <span class="time">{duration(result.durationMs)}</span>}
    </span>
  );
}

export const CallCard = memo(function CallCard({ item, session }: { item: CallItem; session: string }) {
  const [choice, choose] = useState<boolean | null>(null);
  const body = useId();
  const { calledSeq, display, name, stage } = item;
  const open = choice ?? opensByItself(item);
  const title = callTitle(item) || (stage === "writing" ? "…" : "");
  const here = current.value?.id === session ? current.value : null;
  const appearance = here?.appearances.value.get(name);
  const isInterrupted = here?.isInterrupted.value ?? false;
  const label = appearance?.title || (display?.title && !display.title.includes("{") ? display.title : name);
  const header = useRendered(`${session}/${calledSeq}`, appearance?.header && calledSeq ? (width) => api.renderedFact(session, calledSeq, width) : null);
  return (
    <div role="group" class={`call ${classOf(stage)}`} style={borderStyle(appearance)} aria-label={`${name}: ${firstLine(title, 80)}, ${STAGES[stage]}`}>
      <button type="button" class="call-head" aria-expanded={open} aria-controls={body} onClick={() => choose(!open)}>
        <Icon name={callIcon(item)} size={16} />
        <span class="call-name">{label}</span>
        <span class={`call-title${item.toolKind === "execute" ? " code" : ""}`}>{header ? <TerminalText text={header.split("\n", 1)[0] ?? ""} /> : firstLine(title)}</span>
        <Status item={item} isInterrupted={isInterrupted} />
        <span class={open ? "chevron open" : "chevron"} aria-hidden="true">
          <Icon name="right" size={14} />
        </span>
      </button>
      <div id={body} class="call-body" hidden={!open}>
        {open && header?.includes("\n") && <Lines text={header.slice(header.indexOf("\n") + 1)} />}
        {open && (
          <ScrollBox isGrowing={stage === "writing" || stage === "running"}>
            {appearance?.body && item.result ? <RenderedBody item={item} session={session} isMarkdown={appearance.markdown ?? false} /> : <CallBody item={item} session={session} values={callArguments(item)} />}
          </ScrollBox>
        )}
      </div>
      {item.children.map((child) => (
        <ChildCard key={child.key} item={child} opensLive={stage === "running"} />
      ))}
    </div>
  );
});

const classOf = (stage: CallItem["stage"]): string => (FAILED.has(stage) ? "failed" : stage);

function RenderedBody({ item, session, isMarkdown }: { item: CallItem; session: string; isMarkdown: boolean }): JSX.Element | null {
  const seq = item.result?.seq ?? 0;
  const text = useRendered(`${session}/${seq}`, seq ? (width) => api.renderedFact(session, seq, width) : null);
  if (text === undefined) return null;
  if (!text) return <CallBody item={item} session={session} values={callArguments(item)} />;
  return isMarkdown ? <Markdown text={text} /> : <Lines text={text} label="Result" />;
}

/** The border colour of an extension's calls. Its background might be unreadable here. */
function borderStyle(appearance: ToolAppearance | undefined): { borderColor: string } | undefined {
  return appearance?.color && COLOR.test(appearance.color) ? { borderColor: appearance.color } : undefined;
}

/** Keeps the end of a growing text visible, unless a person has scrolled up. */
function ScrollBox({ isGrowing, children }: { isGrowing: boolean; children: JSX.Element }): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    const box = element.current;
    if (isGrowing && box && follows.current) box.scrollTop = box.scrollHeight;
  });
  const scrolled = (): void => {
    const box = element.current;
    if (box) follows.current = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  };
  return (
    <div class="scroll-box" ref={element} onScroll={scrolled}>
      {children}
    </div>
  );
}
