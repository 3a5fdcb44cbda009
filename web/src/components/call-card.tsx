/** One call of a tool: its arguments while they are written, its output while it runs, then what came of it. */

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { argumentsOf, iconOf, titleOf } from "../text/tool-words";
import type { ToolBlock } from "../transcript/session-view";
import { elapsed, firstLine } from "../text/format";
import { current } from "../state/open-session";
import { api } from "../api/client";
import type { ToolDress } from "../api/types";
import { ChildCard } from "./child-card";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { memo } from "./memo";
import { useNow } from "./clock";
import { Lines, useRendered } from "./extension-ui";
import { TerminalText } from "./terminal-text";
import { ToolBody } from "./call-body";

const COLOR = /^#[0-9a-f]{6}$/i;
const QUIET = new Set(["read", "search", "agent"]);

function opensByItself(tool: ToolBlock): boolean {
  if (tool.stage === "failed") return tool.result?.failed !== "call_refused";
  if (tool.name === "todo") return tool.stage === "done";
  if (tool.about === "edit" || tool.name === "edit" || tool.name === "write") return true;
  if (tool.stage === "done" || tool.stage === "left") {
    if (tool.child) return false;
    if (tool.about === "execute") return resultLines(tool) <= 12;
    return false;
  }
  if (tool.stage === "asking") return false;
  return !QUIET.has(tool.about);
}

function resultLines(tool: ToolBlock): number {
  return (tool.result?.content ?? []).reduce((sum, one) => sum + (one.type === "text" ? one.text.split("\n").length : 20), 0);
}

const STAGES: Record<string, string> = {
  writing: "being written",
  called: "waiting",
  asking: "needs your answer",
  running: "running",
  deferred: "finishing later",
  done: "done",
  failed: "failed",
  left: "not finished",
  cut: "cut off",
};

function Status({ tool, isCut }: { tool: ToolBlock; isCut: boolean }): JSX.Element {
  const isRunning = tool.stage === "running" && !isCut;
  const now = useNow(isRunning);
  const spent = isRunning && tool.startedAt ? now - Date.parse(tool.startedAt) : 0;
  const stage = isCut && (tool.stage === "running" || tool.stage === "writing") ? "cut" : tool.stage;
  const result = tool.result;
  const summary = result ? result.summary || (result.failed ?? "").replace(/_/g, " ") : "";
  return (
    <span class={`status ${tool.stage}`}>
      {(tool.stage === "writing" && !isCut) || isRunning ? <span class="spinner" aria-hidden="true" /> : null}
      {tool.stage === "done" && <Icon name="check" size={14} />}
      {tool.stage === "failed" && <Icon name="cross" size={14} />}
      {(tool.stage === "asking" || tool.stage === "deferred") && <Icon name="clock" size={14} />}
      <span class={summary ? "summary" : "summary stage"}>{summary ? firstLine(summary, 60) : STAGES[stage]}</span>
      {spent > 2000 && <span class="time">{elapsed(spent)}</span>}
      {result && result.duration >= 1000 && <span class="time">{elapsed(result.duration)}</span>}
    </span>
  );
}

export const ToolCard = memo(function ToolCard({ tool, session }: { tool: ToolBlock; session: string }) {
  const [chosen, choose] = useState<boolean | null>(null);
  const body = useId();
  const open = chosen ?? opensByItself(tool);
  const hasChild = Boolean(tool.child);
  const title = titleOf(tool) || (tool.stage === "writing" ? "…" : "");
  const here = current.value?.id === session ? current.value : null;
  const dress = here?.dresses.value.get(tool.name);
  const isCut = here?.isCut.value ?? false;
  const known = dress?.title || (tool.display?.title && !tool.display.title.includes("{") ? tool.display.title : tool.name);
  const header = useRendered(`${session}/${tool.calledSeq}`, dress?.header && tool.calledSeq ? (width) => api.renderedFact(session, tool.calledSeq, width) : null);
  return (
    <div role="group" class={`tool ${tool.stage}`} style={dressed(dress)} aria-label={`${tool.name}: ${firstLine(title, 80)}, ${STAGES[tool.stage]}`}>
      <button type="button" class="tool-head" aria-expanded={open} aria-controls={body} onClick={() => choose(!open)}>
        <Icon name={iconOf(tool)} size={16} />
        <span class="tool-name">{known}</span>
        <span class={`tool-title${tool.about === "execute" ? " code" : ""}`}>{header ? <TerminalText text={header.split("\n", 1)[0] ?? ""} /> : firstLine(title)}</span>
        <Status tool={tool} isCut={isCut} />
        <span class={open ? "chevron open" : "chevron"} aria-hidden="true">
          <Icon name="right" size={14} />
        </span>
      </button>
      <div id={body} class="tool-body" hidden={!open}>
        {open && header?.includes("\n") && <Lines text={header.slice(header.indexOf("\n") + 1)} />}
        {open && (
          <Growing active={tool.stage === "writing" || tool.stage === "running"}>
            {dress?.body && tool.result ? <DrawnBody tool={tool} session={session} isMarkdown={dress.markdown ?? false} /> : <ToolBody tool={tool} session={session} values={argumentsOf(tool)} />}
          </Growing>
        )}
      </div>
      {hasChild && tool.child && <ChildCard child={tool.child} open={tool.stage === "running"} />}
    </div>
  );
});

function DrawnBody({ tool, session, isMarkdown }: { tool: ToolBlock; session: string; isMarkdown: boolean }): JSX.Element | null {
  const seq = tool.result?.seq ?? 0;
  const text = useRendered(`${session}/${seq}`, seq ? (width) => api.renderedFact(session, seq, width) : null);
  if (text === undefined) return null;
  if (!text) return <ToolBody tool={tool} session={session} values={argumentsOf(tool)} />;
  return isMarkdown ? <Markdown text={text} /> : <Lines text={text} label="Result" />;
}

/** The colour that an extension wants for its calls. Its background might not be readable here. */
function dressed(dress: ToolDress | undefined): { borderColor: string } | undefined {
  return dress?.color && COLOR.test(dress.color) ? { borderColor: dress.color } : undefined;
}

/** Keeps the end of what grows in sight, unless somebody has scrolled up in it. */
function Growing({ active, children }: { active: boolean; children: JSX.Element }): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    const one = element.current;
    if (active && one && follows.current) one.scrollTop = one.scrollHeight;
  });
  const scrolled = (): void => {
    const one = element.current;
    if (one) follows.current = one.scrollHeight - one.scrollTop - one.clientHeight < 40;
  };
  return (
    <div class="growing" ref={element} onScroll={scrolled}>
      {children}
    </div>
  );
}
