/** Code in a frame, coloured once the highlighter is there. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { memo } from "./memo";
import { useMemo, useState } from "preact/hooks";
import type { Piece } from "../text/highlight";
import { announcement } from "../state/app";
import { Icon } from "./icons";

type Highlighter = typeof import("../text/highlight");

const highlighter = signal<Highlighter | null>(null);
let loading: Promise<void> | null = null;
/** Longer code stays plain: colours would cost more than they tell. */
const MOST = 60_000;

function needHighlighter(): Highlighter | null {
  loading ??= import("../text/highlight").then((loaded) => {
    highlighter.value = loaded;
  });
  return highlighter.value;
}

export function useHighlightedLines(code: string, language: string): Piece[][] | null {
  const loaded = language && code.length < MOST ? needHighlighter() : null;
  return useMemo(
    () => (loaded?.languageKnown(language) ? loaded.highlightedLines(code, language) : null),
    [code, language, loaded],
  );
}

export function Pieces({ pieces }: { pieces: readonly Piece[] }): JSX.Element {
  return (
    <>
      {pieces.map((piece) => (piece.classes ? <span class={piece.classes}>{piece.text}</span> : piece.text))}
    </>
  );
}

export const Highlighted = memo(function Highlighted({ code, language }: { code: string; language: string }) {
  const loaded = language && code.length < MOST ? needHighlighter() : null;
  const pieces = useMemo(
    () => (loaded?.languageKnown(language) ? loaded.highlighted(code, language) : null),
    [code, language, loaded],
  );
  return <code>{pieces ? <Pieces pieces={pieces} /> : code}</code>;
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
      announcement.value = "The browser did not allow copying.";
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
