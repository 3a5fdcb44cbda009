/** What a call shows of itself: a command and what it printed, a file that grows, a diff, a list, a text. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type DiffLine, editLines, readUnified } from "../text/diff";
import { languageOf } from "../text/languages";
import { otherArguments } from "../text/tool-words";
import type { ToolBlock } from "../transcript/session-view";
import { sizeText } from "../text/format";
import { api } from "../api/client";
import type { PlainBlock, TodoItem } from "../api/types";
import { CopyButton, Highlighted } from "./code";
import { Diff } from "./diff";
import { Markdown } from "./markdown";
import { Media } from "./media";
import { memo } from "./memo";
import { TerminalText } from "./terminal-text";
import { TodoList } from "./todo-list";

interface Body {
  tool: ToolBlock;
  session: string;
  values: Record<string, unknown>;
}

/** Of a long text so many lines are drawn before somebody asks for the rest. */
const FIRST = 200;

export function textOf(content: readonly PlainBlock[]): string {
  return content.map((one) => (one.type === "text" ? one.text : "")).join("\n");
}

export const Terminal = memo(function Terminal({ text, label }: { text: string; label: string }) {
  const [all, setAll] = useState(false);
  const lines = useMemo(() => text.split("\n"), [text]);
  const hidden = all ? 0 : Math.max(0, lines.length - FIRST);
  const shown = hidden ? lines.slice(hidden).join("\n") : text;
  return (
    <>
      {hidden > 0 && (
        <button type="button" class="quiet more" onClick={() => setAll(true)}>
          {hidden} earlier lines
        </button>
      )}
      <pre class="terminal" tabIndex={0} aria-label={label}>
        <TerminalText text={shown} />
      </pre>
    </>
  );
});

function Command({ tool, values }: Body): JSX.Element {
  const command = String(values["command"] ?? "");
  const output = tool.result ? textOf(tool.result.content) : tool.output;
  return (
    <>
      {(command.includes("\n") || command.length > 60) && (
        <div class="command">
          <pre tabIndex={0} aria-label="Command">
            <Highlighted code={command} language="bash" />
          </pre>
          <CopyButton text={command} label="Copy the command" />
        </div>
      )}
      {output && <Terminal text={output} label="Output" />}
    </>
  );
}

function FileChange({ tool, values }: Body): JSX.Element | null {
  const path = String(values["path"] ?? values["file_path"] ?? "");
  const language = languageOf(path);
  const diff = tool.result?.details?.["diff"];
  const isNew = tool.result?.details?.["created"] === true && typeof values["content"] === "string";
  const isWhole = tool.stage !== "writing";
  const content = values["content"];
  const lines = useMemo((): DiffLine[] => {
    if (isNew) return [];
    if (typeof diff === "string" && diff) return readUnified(diff);
    return editLines(values["edits"], isWhole);
  }, [diff, values, isWhole, isNew]);
  if (lines.length) return <Diff lines={lines} language={language} />;
  if (typeof content !== "string") return null;
  return (
    <pre class="file" tabIndex={0} aria-label={`Content of ${path}`}>
      <Highlighted code={content} language={language} />
    </pre>
  );
}

function Other({ tool, session }: Body): JSX.Element {
  const written = otherArguments(tool);
  const text = tool.result ? textOf(tool.result.content) : tool.output;
  const view = tool.display?.view ?? "text";
  const media = (tool.result?.content ?? []).filter((one) => one.type !== "text");
  return (
    <>
      {written.length > 0 && (
        <dl class="arguments">
          {written.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value.length > 4000 ? `${value.slice(0, 4000)}…` : value}</dd>
            </div>
          ))}
        </dl>
      )}
      {media.map((one) => (
        <Media content={one} session={session} />
      ))}
      {text && (view === "markdown" ? <Markdown text={text} /> : view === "diff" ? <Diff lines={readUnified(text)} language="" /> : <Terminal text={text} label="Result" />)}
    </>
  );
}

export function ToolBody(body: Body): JSX.Element {
  const { tool, session } = body;
  const result = tool.result;
  const isChange = tool.about === "edit" || tool.name === "edit" || tool.name === "write";
  const failedText = result?.failed && (isChange || tool.name === "todo") ? textOf(result.content) : "";
  const items = result?.details?.["items"] as TodoItem[] | undefined;
  return (
    <>
      {tool.malformed && <p class="problem">The arguments cannot be used: {tool.malformed}</p>}
      {tool.about === "execute" || typeof body.values["command"] === "string" ? (
        <Command {...body} />
      ) : isChange ? (
        <FileChange {...body} />
      ) : tool.name === "todo" && items ? (
        <TodoList items={items} />
      ) : (
        <Other {...body} />
      )}
      {failedText && <Terminal text={failedText} label="What went wrong" />}
      {tool.note && <p class="note">{tool.note}</p>}
      <p class="small-print">
        {tool.answered && <span>{tool.answered}</span>}
        {tool.allowedBy && !tool.answered && !tool.allowedBy.startsWith("profile") && <span>{tool.allowedBy}</span>}
        {result?.repeats ? <span>reused result</span> : null}
        {result?.output && (
          <a href={api.blobUrl(session, result.output.id)} target="_blank" rel="noopener">
            Whole output ({sizeText(result.output.size)})
          </a>
        )}
      </p>
    </>
  );
}
