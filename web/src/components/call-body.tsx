/** The body of a tool call: a command and its output, a file, a diff, a to-do list, or a text. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { api } from "../api/client";
import type { TodoItem } from "../api/types";
import { show } from "../state/downloads";
import { type DiffLine, editDiff, parseUnifiedDiff } from "../text/diff";
import { detailArguments } from "../text/format";
import { fileSize } from "../text/format";
import { languageOf } from "../text/languages";
import { type CallItem, plainTextOf } from "../transcript/items";
import { CopyButton, Highlighted } from "./code";
import { Diff } from "./diff";
import { Markdown } from "./markdown";
import { Media } from "./media";
import { memo } from "./memo";
import { TerminalText } from "./terminal-text";
import { TodoList } from "./todo-list";

interface Body {
  item: CallItem;
  session: string;
  values: Record<string, unknown>;
}

/** The lines of a long output that are shown at first. */
const MAX_LINES = 200;

export const Terminal = memo(function Terminal({ text, label }: { text: string; label: string }) {
  const [isExpanded, expand] = useState(false);
  const lines = useMemo(() => text.split("\n"), [text]);
  const hidden = isExpanded ? 0 : Math.max(0, lines.length - MAX_LINES);
  const visible = hidden ? lines.slice(hidden).join("\n") : text;
  return (
    <>
      {hidden > 0 && (
        <button type="button" class="quiet more" onClick={() => expand(true)}>
          Show {hidden} earlier lines
        </button>
      )}
      <pre class="terminal" tabIndex={0} aria-label={label}>
        <TerminalText text={visible} />
      </pre>
    </>
  );
});

function Command({ item, values }: Body): JSX.Element {
  const command = String(values["command"] ?? "");
  const output = item.result ? plainTextOf(item.result.content) : item.output;
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

function FileChange({ item, values }: Body): JSX.Element | null {
  const path = String(values["path"] ?? values["file_path"] ?? "");
  const language = languageOf(path);
  const diff = item.result?.details?.["diff"];
  const isNew = item.result?.details?.["created"] === true && typeof values["content"] === "string";
  const isComplete = item.stage !== "writing";
  const content = values["content"];
  const lines = useMemo((): DiffLine[] => {
    if (isNew) return [];
    if (typeof diff === "string" && diff) return parseUnifiedDiff(diff);
    return editDiff(values["edits"], isComplete);
  }, [diff, values, isComplete, isNew]);
  if (lines.length) return <Diff lines={lines} language={language} />;
  if (typeof content !== "string") return null;
  return (
    <pre class="file" tabIndex={0} aria-label={`Content of ${path}`}>
      <Highlighted code={content} language={language} />
    </pre>
  );
}

function Other({ item, session }: Body): JSX.Element {
  const details = detailArguments(item);
  const text = item.result ? plainTextOf(item.result.content) : item.output;
  const view = item.display?.view ?? "text";
  const media = (item.result?.content ?? []).filter((block) => block.type !== "text");
  return (
    <>
      {details.length > 0 && (
        <dl class="arguments">
          {details.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value.length > 4000 ? `${value.slice(0, 4000)}…` : value}</dd>
            </div>
          ))}
        </dl>
      )}
      {media.map((block) => (
        <Media content={block} session={session} />
      ))}
      {text && (view === "markdown" ? <Markdown text={text} /> : view === "diff" ? <Diff lines={parseUnifiedDiff(text)} language="" /> : <Terminal text={text} label="Result" />)}
    </>
  );
}

export function CallBody(body: Body): JSX.Element {
  const { item, session } = body;
  const result = item.result;
  const isChange = item.toolKind === "edit" || item.name === "edit" || item.name === "write";
  const errorText = result?.failed && (isChange || item.name === "todo") ? plainTextOf(result.content) : "";
  const items = result?.details?.["items"] as TodoItem[] | undefined;
  return (
    <>
      {item.malformed && <p class="problem">Invalid arguments: {item.malformed}</p>}
      {item.toolKind === "execute" || typeof body.values["command"] === "string" ? (
        <Command {...body} />
      ) : isChange ? (
        <FileChange {...body} />
      ) : item.name === "todo" && items ? (
        <TodoList items={items} />
      ) : (
        <Other {...body} />
      )}
      {errorText && <Terminal text={errorText} label="Error" />}
      {item.note && <p class="note">{item.note}</p>}
      <p class="small-print">
        {item.answerText && <span>{item.answerText}</span>}
        {item.allowedBy && !item.answerText && !item.allowedBy.startsWith("profile") && <span>{item.allowedBy}</span>}
        {result?.repeats ? <span>cached result</span> : null}
        {result?.output && (
          <button type="button" class="quiet link" onClick={() => show(() => api.blob(session, result.output!.id))}>
            Full output ({fileSize(result.output.size)})
          </button>
        )}
      </p>
    </>
  );
}
