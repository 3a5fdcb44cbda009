/** The blocks of a conversation. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { languageOf } from "../text/languages";
import { typedText, uploadedText } from "../text/parts-of-prompt";
import { safeAddress } from "../text/markdown";
import type { AnswerBlock, Block, NoticeBlock, PrintedBlock, ReceiptBlock, SummaryBlock, UserBlock } from "../transcript/session-view";
import { dollars, elapsed, firstLine, leastCost, plainText, shortTokens, sizeText, totalTokens } from "../text/format";
import { mayAct } from "../state/app";
import { current } from "../state/open-session";
import { ChildCard } from "./child-card";
import { Highlighted } from "./code";
import { DrawnText } from "./drawn-text";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { Media } from "./media";
import { memo } from "./memo";
import { MessageActions } from "./message-actions";
import { TerminalText } from "./terminal-text";
import { ToolCard } from "./call-card";

const SOURCES: Record<string, string> = { steer: "said meanwhile", reminder: "reminder", hook: "extension" };
/** What a person has written as a message. `sending`: nobody has taken it yet. */
const OWN = new Set(["prompt", "terminal", "sending"]);

function UploadedText({ name, content }: { name: string; content: string }): JSX.Element {
  return (
    <details class="uploaded">
      <summary>
        <Icon name="file" size={15} /> {name} <small>{sizeText(content.length)}</small>
      </summary>
      <pre>
        <Highlighted code={content} language={languageOf(name)} />
      </pre>
    </details>
  );
}

function User({ block, session, nested }: { block: UserBlock; session: string; nested: boolean }): JSX.Element {
  const uploaded = block.content.flatMap((one) => (one.type === "text" ? (uploadedText(one.text) ?? []) : []));
  const text = typedText(block.content);
  const [all, setAll] = useState(false);
  const isLong = text.length > 3000 || text.split("\n").length > 30;
  return (
    <article class={`user ${block.source === "terminal" ? "prompt" : block.source}`} aria-label="You">
      {!OWN.has(block.source) && <span class="badge">{SOURCES[block.source] ?? block.source}</span>}
      {block.label && <span class="badge label">{block.label}</span>}
      <div class={isLong && !all ? "user-text cut" : "user-text"}>{text}</div>
      {isLong && (
        <button type="button" class="quiet more" onClick={() => setAll(!all)}>
          {all ? "Show less" : "Show all"}
        </button>
      )}
      {uploaded.map((one) => (
        <UploadedText {...one} />
      ))}
      {block.content.map((one) => (
        <Media content={one} session={session} />
      ))}
      {!nested && <MessageActions seq={block.seq} text={text} prompt={block.content} />}
    </article>
  );
}

function Answer({ block, nested }: { block: AnswerBlock; nested: boolean }): JSX.Element {
  return (
    <article class={block.writing ? "answer writing" : "answer"} aria-label="Answer" aria-busy={block.writing}>
      {block.label && <span class="badge label">{block.label}</span>}
      {block.drawn ? <DrawnText text={block.text} /> : <Markdown text={block.text} />}
      {block.cut && <p class="small-print">This was cut off.</p>}
      {block.seq > 0 && !nested && <MessageActions seq={block.seq} text={block.text} />}
    </article>
  );
}

function Thoughts({ block }: { block: AnswerBlock }): JSX.Element {
  const [chosen, choose] = useState<boolean | null>(null);
  const open = chosen ?? false;
  const last = block.text.trim().split("\n").at(-1) ?? "";
  return (
    <div class={block.writing ? "thoughts writing" : "thoughts"} role="group" aria-label="Reasoning">
      <button type="button" class="quiet" aria-expanded={open} onClick={() => choose(!open)}>
        <Icon name="thought" size={15} />
        <span>{block.writing ? "Thinking" : "Thought"}</span>
        {!open && <span class="last">{firstLine(last.replace(/[*_`#]/g, ""), 120)}</span>}
        <span class={open ? "chevron open" : "chevron"} aria-hidden="true">
          <Icon name="right" size={13} />
        </span>
      </button>
      {open && <Markdown text={block.text} />}
    </div>
  );
}

function Notice({ block }: { block: NoticeBlock }): JSX.Element {
  const text = plainText(block.text);
  const isLong = text.length > 400;
  return (
    <div class={`notice ${block.level === "quiet" ? "calm" : block.level}`} role={block.level === "error" ? "alert" : undefined}>
      {(block.level === "warning" || block.level === "error") && <Icon name="warning" size={15} />}
      <div>
        <strong>{block.title}</strong>{" "}
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

function Summary({ block }: { block: SummaryBlock }): JSX.Element {
  return (
    <details class="summarised">
      <summary>
        <Icon name="squeeze" size={15} /> {block.title}
      </summary>
      <Markdown text={block.text} />
      {block.undoable && mayAct() && (
        <button type="button" class="quiet" onClick={() => void current.value?.request({ type: "undo_compaction", compaction: block.seq })}>
          Undo
        </button>
      )}
    </details>
  );
}

function Printed({ block }: { block: PrintedBlock }): JSX.Element {
  const color = /^#[0-9a-f]{6}$/i.test(block.color) ? { borderColor: block.color } : undefined;
  return (
    <div class={`printed ${block.level === "block" ? "boxed" : block.level}`} style={color} role="status">
      <pre>
        <TerminalText text={block.text} />
      </pre>
      {(block.title || block.extension) && <small>{block.title || block.extension}</small>}
    </div>
  );
}

const ENDS: Record<string, string> = {
  completed: "Done",
  cancelled: "Stopped",
  refused: "Ended: a call was refused",
  limit: "Ended by a limit",
  interrupted: "Interrupted",
  failed: "Failed",
};

function Receipt({ block }: { block: ReceiptBlock }): JSX.Element {
  const tokens = totalTokens(block.own.usage) + totalTokens(block.children.usage);
  const cost = leastCost(block.own) + leastCost(block.children);
  const calls = (block.own.tool_calls ?? 0) + (block.children.tool_calls ?? 0);
  const parts = [
    calls ? `${calls} call${calls === 1 ? "" : "s"}` : "",
    tokens ? `${shortTokens(tokens)} tokens` : "",
    cost ? dollars(cost) : "",
    (block.own.duration_ms ?? 0) >= 1000 ? elapsed(block.own.duration_ms ?? 0) : "",
  ].filter(Boolean);
  const isPlain = block.reason === block.status || (block.status === "cancelled" && block.reason.startsWith("cancelled by"));
  const why = block.failure?.message || (isPlain ? "" : block.reason);
  return (
    <div class={`receipt ${block.status}`}>
      <span>{[ENDS[block.status] ?? block.status, ...parts].join(" · ")}</span>
      {why && <p>{why}</p>}
    </div>
  );
}

export const BlockView = memo(function BlockView({ block, session, nested = false }: { block: Block; session: string; nested?: boolean }) {
  switch (block.kind) {
    case "user":
      return <User block={block} session={session} nested={nested} />;
    case "text":
      return <Answer block={block} nested={nested} />;
    case "reasoning":
      return <Thoughts block={block} />;
    case "tool":
      return <ToolCard tool={block} session={session} />;
    case "child":
      return <ChildCard child={block.child} open />;
    case "media":
      return <Media content={block.content} session={session} />;
    case "notice":
      return <Notice block={block} />;
    case "summary":
      return <Summary block={block} />;
    case "printed":
      return <Printed block={block} />;
    case "receipt":
      return <Receipt block={block} />;
    case "sources":
      return (
        <ul class="sources" aria-label="Sources">
          {block.sources.map((one) => {
            const address = safeAddress(one.url);
            return <li>{address ? <a href={address} target="_blank" rel="noopener noreferrer">{one.title || one.url}</a> : one.title || one.url}</li>;
          })}
        </ul>
      );
  }
});
