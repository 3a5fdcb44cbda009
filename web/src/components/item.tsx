/** One item of the transcript. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { canAct } from "../state/app";
import { current } from "../state/open-session";
import { dollars, duration, fileSize, firstLine, knownCost, plainText, shortTokens, totalTokens } from "../text/format";
import { languageOf } from "../text/languages";
import { safeAddress } from "../text/links";
import { parseUpload, promptText } from "../text/prompt";
import { answerText } from "../transcript/call-items";
import {
  type ExtensionItem,
  type Item,
  type NoticeItem,
  type PrintedItem,
  type QuestionItem,
  type ReasoningItem,
  type RunEndItem,
  type SourcesItem,
  type SummaryItem,
  type TextItem,
  type UserItem,
  isCutOff,
} from "../transcript/items";
import { CallCard } from "./call-card";
import { ChildCard } from "./child-card";
import { Highlighted } from "./code";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { Media } from "./media";
import { memo } from "./memo";
import { MessageActions } from "./message-actions";
import { ScreenText, TerminalText } from "./terminal-text";

const SOURCES: Record<string, string> = { steer: "steer", reminder: "reminder", hook: "extension" };
/** Messages of a person. `sending`: the server has not confirmed it yet. */
const BY_PERSON = new Set(["prompt", "terminal", "sending"]);

function UploadedText({ name, content }: { name: string; content: string }): JSX.Element {
  return (
    <details class="uploaded">
      <summary>
        <Icon name="file" size={15} /> {name} <small>{fileSize(content.length)}</small>
      </summary>
      <pre>
        <Highlighted code={content} language={languageOf(name)} />
      </pre>
    </details>
  );
}

function User({ item, session, isNested }: { item: UserItem; session: string; isNested: boolean }): JSX.Element {
  const uploads = item.content.flatMap((block) => (block.type === "text" ? (parseUpload(block.text) ?? []) : []));
  const text = promptText(item.content);
  const [isExpanded, expand] = useState(false);
  const isLong = text.length > 3000 || text.split("\n").length > 30;
  return (
    <article class={`user ${item.source === "terminal" ? "prompt" : item.source}`} aria-label="You">
      {!BY_PERSON.has(item.source) && <span class="badge">{SOURCES[item.source] ?? item.source}</span>}
      {item.label && <span class="badge label">{item.label}</span>}
      <div class={isLong && !isExpanded ? "user-text cut" : "user-text"}>{text}</div>
      {isLong && (
        <button type="button" class="quiet more" onClick={() => expand(!isExpanded)}>
          {isExpanded ? "Show less" : "Show all"}
        </button>
      )}
      {uploads.map((upload) => (
        <UploadedText {...upload} />
      ))}
      {item.content.map((block) => (
        <Media content={block} session={session} />
      ))}
      {!isNested && <MessageActions seq={item.seq} text={text} prompt={item.content} />}
    </article>
  );
}

function Answer({ item, isNested }: { item: TextItem; isNested: boolean }): JSX.Element {
  const isWriting = !item.complete && !isCutOff(item);
  return (
    <article class={isWriting ? "answer writing" : "answer"} aria-label="Answer" aria-busy={isWriting}>
      {item.label && <span class="badge label">{item.label}</span>}
      {item.drawn ? <ScreenText text={item.text} /> : <Markdown text={item.text} />}
      {isCutOff(item) && <p class="small-print">This answer was cut off.</p>}
      {item.seq > 0 && !isCutOff(item) && !isNested && <MessageActions seq={item.seq} text={item.text} />}
    </article>
  );
}

function Reasoning({ item }: { item: ReasoningItem }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const isWriting = !item.complete && item.seq === 0;
  const lastLine = item.text.trim().split("\n").at(-1) ?? "";
  return (
    <div class={isWriting ? "reasoning writing" : "reasoning"} role="group" aria-label="Reasoning">
      <button type="button" class="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="thought" size={15} />
        <span>{isWriting ? "Thinking" : "Thought"}</span>
        {!isOpen && <span class="last">{firstLine(lastLine.replace(/[*_`#]/g, ""), 120)}</span>}
        <span class={isOpen ? "chevron open" : "chevron"} aria-hidden="true">
          <Icon name="right" size={13} />
        </span>
      </button>
      {isOpen && <Markdown text={item.text} />}
    </div>
  );
}

interface LineProperties {
  level: "calm" | "info" | "warning" | "error";
  title: string;
  text: string;
}

function Line({ level, title, text: source }: LineProperties): JSX.Element {
  const text = plainText(source);
  const isLong = text.length > 400;
  return (
    <div class={`notice ${level}`} role={level === "error" ? "alert" : undefined}>
      {(level === "warning" || level === "error") && <Icon name="warning" size={15} />}
      <div>
        <strong>{title}</strong>{" "}
        {isLong ? (
          <details>
            <summary>{firstLine(text, 160)}</summary>
            <pre>{text}</pre>
          </details>
        ) : (
          <span class="notice-text">{text}</span>
        )}
      </div>
    </div>
  );
}

function noticeTitle({ code, details }: NoticeItem): string {
  switch (code) {
    case "retry":
      return `Model call failed (attempt ${details?.["attempt"]})`;
    case "fallback":
    case "model_failed":
      return "Model call failed";
    case "warned":
      return details?.["about"] === "extension" ? "Extension" : "Warning";
    case "request_refused":
      return "Request refused";
    case "settings":
      return "Settings";
    case "permission":
      return details?.["effect"] === "revoked" ? "Rule removed" : "Rule added";
    case "compaction_undone":
      return "Summary undone";
  }
}

const CALM = new Set(["settings", "permission", "compaction_undone"]);

function Notice({ item }: { item: NoticeItem }): JSX.Element {
  return <Line level={CALM.has(item.code) ? "calm" : item.level} title={noticeTitle(item)} text={item.text} />;
}

function AnsweredQuestion({ item }: { item: QuestionItem }): JSX.Element {
  const who = item.identity.split(":").slice(1).join(":");
  const answer = who ? `${answerText(item)} (${who})` : answerText(item);
  return <Line level="calm" title="Question" text={`${item.asked.question.text.split("\n")[0]} → ${answer}`} />;
}

function Extension({ item }: { item: ExtensionItem }): JSX.Element {
  const data = item.data === null ? "" : JSON.stringify(item.data, null, 1);
  return <Line level={item.failed ? "error" : "info"} title={item.command || `${item.extension}: ${item.name}`} text={item.text || data} />;
}

function summaryTitle({ source, tokensBefore, tokensAfter }: SummaryItem): string {
  if (source === "branch") return "Summary of another branch";
  if (source === "history") return "History replaced";
  const sizes = tokensBefore ? ` · ${shortTokens(tokensBefore)} → ${shortTokens(tokensAfter)} tokens` : "";
  return `Earlier messages summarised${sizes}`;
}

function Summary({ item }: { item: SummaryItem }): JSX.Element {
  return (
    <details class="summary-box">
      <summary>
        <Icon name="squeeze" size={15} /> {summaryTitle(item)}
      </summary>
      <Markdown text={item.text} />
      {item.source === "compaction" && !item.undone && canAct() && (
        <button type="button" class="quiet" onClick={() => void current.value?.request({ type: "undo_compaction", compaction: item.seq })}>
          Undo
        </button>
      )}
    </details>
  );
}

function Printed({ item: { printed } }: { item: PrintedItem }): JSX.Element {
  const { text, level = "plain", title = "", extension = "", color = "" } = printed;
  const style = /^#[0-9a-f]{6}$/i.test(color) ? { borderColor: color } : undefined;
  return (
    <div class={`printed ${level === "block" ? "boxed" : level}`} style={style} role="status">
      <pre>
        <TerminalText text={text} />
      </pre>
      {(title || extension) && <small>{title || extension}</small>}
    </div>
  );
}

const STATUSES: Record<string, string> = {
  completed: "Done",
  cancelled: "Stopped",
  refused: "Ended: a call was refused",
  limit: "Ended: a limit was reached",
  interrupted: "Interrupted",
  failed: "Failed",
};

function RunEnd({ item: { status, reason, failure, own, children, isExplained } }: { item: RunEndItem }): JSX.Element {
  const tokens = totalTokens(own.usage) + totalTokens(children.usage);
  const cost = knownCost(own) + knownCost(children);
  const calls = (own.tool_calls ?? 0) + (children.tool_calls ?? 0);
  const figures = [
    calls ? `${calls} call${calls === 1 ? "" : "s"}` : "",
    tokens ? `${shortTokens(tokens)} tokens` : "",
    cost ? dollars(cost) : "",
    (own.duration_ms ?? 0) >= 1000 ? duration(own.duration_ms ?? 0) : "",
  ].filter(Boolean);
  const isPlain = reason === status || (status === "cancelled" && reason.startsWith("cancelled by"));
  const explanation = isExplained ? "" : failure?.message || (isPlain ? "" : reason);
  return (
    <div class={`run-end ${status}`}>
      <span>{[STATUSES[status] ?? status, ...figures].join(" · ")}</span>
      {explanation && <p>{explanation}</p>}
    </div>
  );
}

function Sources({ item }: { item: SourcesItem }): JSX.Element {
  const entry = ({ url, title }: SourcesItem["sources"][number]): ComponentChildren => {
    const address = safeAddress(url);
    return address ? <a href={address} target="_blank" rel="noopener noreferrer">{title || url}</a> : title || url;
  };
  return (
    <ul class="sources" aria-label="Sources">
      {item.sources.map((source) => (
        <li>{entry(source)}</li>
      ))}
    </ul>
  );
}

export const ItemView = memo(function ItemView({ item, session, isNested = false }: { item: Item; session: string; isNested?: boolean }) {
  switch (item.kind) {
    case "user":
      return <User item={item} session={session} isNested={isNested} />;
    case "text":
      return <Answer item={item} isNested={isNested} />;
    case "reasoning":
      return <Reasoning item={item} />;
    case "media":
      return <Media content={item.content} session={session} />;
    case "sources":
      return <Sources item={item} />;
    case "call":
      return <CallCard item={item} session={session} />;
    case "child":
      return <ChildCard item={item} opensLive />;
    case "question":
      return <AnsweredQuestion item={item} />;
    case "extension":
      return <Extension item={item} />;
    case "printed":
      return <Printed item={item} />;
    case "run_end":
      return <RunEnd item={item} />;
    case "summary":
      return <Summary item={item} />;
    case "notice":
      return <Notice item={item} />;
    case "todo_list":
      return null; // the side panel shows it
  }
});
