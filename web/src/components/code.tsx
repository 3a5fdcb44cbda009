/** Code, coloured once the highlighter is loaded. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { announcement } from "../state/app";
import type { CodeSpan } from "../text/highlight";
import { Icon } from "./icons";
import { memo } from "./memo";

type Highlighter = typeof import("../text/highlight");

const highlighter = signal<Highlighter | null>(null);
let loading: Promise<void> | null = null;
/** Longer code stays plain. */
const MAX_LENGTH = 60_000;

function loadHighlighter(): Highlighter | null {
  loading ??= import("../text/highlight").then((loaded) => {
    highlighter.value = loaded;
  });
  return highlighter.value;
}

export function useHighlightedLines(code: string, language: string): CodeSpan[][] | null {
  const loaded = language && code.length < MAX_LENGTH ? loadHighlighter() : null;
  return useMemo(
    () => (loaded?.hasLanguage(language) ? loaded.highlightLines(code, language) : null),
    [code, language, loaded],
  );
}

export function Spans({ spans }: { spans: readonly CodeSpan[] }): JSX.Element {
  return (
    <>
      {spans.map((span) => (span.classes ? <span class={span.classes}>{span.text}</span> : span.text))}
    </>
  );
}

export const Highlighted = memo(function Highlighted({ code, language }: { code: string; language: string }) {
  const loaded = language && code.length < MAX_LENGTH ? loadHighlighter() : null;
  const spans = useMemo(
    () => (loaded?.hasLanguage(language) ? loaded.highlight(code, language) : null),
    [code, language, loaded],
  );
  return <code>{spans ? <Spans spans={spans} /> : code}</code>;
});

export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }): JSX.Element {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      announcement.value = "Copied.";
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      announcement.value = "The browser does not allow copying.";
    }
  };
  return (
    <button type="button" class="quiet small" aria-label={label} title={label} onClick={() => void copy()}>
      <Icon name={done ? "check" : "copy"} size={15} />
    </button>
  );
}

export function CodeBlock({ code, language }: { code: string; language: string }): JSX.Element {
  return (
    <div class="code-block">
      <div class="code-head">
        <span>{language || "text"}</span>
        <CopyButton text={code} label="Copy the code" />
      </div>
      <pre tabIndex={0} aria-label={`Code${language ? ` in ${language}` : ""}`}>
        <Highlighted code={code} language={language} />
      </pre>
    </div>
  );
}
