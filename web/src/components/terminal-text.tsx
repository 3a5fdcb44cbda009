/** Text from terminals: with ANSI colours, or copied from a screen. */

import { useMemo } from "preact/hooks";
import { parseAnsi } from "../text/ansi";
import { splitLinks } from "../text/links";
import { memo } from "./memo";

export const TerminalText = memo(function TerminalText({ text }: { text: string }) {
  const spans = useMemo(() => parseAnsi(text), [text]);
  return (
    <>
      {spans.map((span) =>
        span.classes || span.style ? (
          <span class={span.classes} style={span.style}>
            {span.text}
          </span>
        ) : (
          span.text
        ),
      )}
    </>
  );
});

/** Keeps every letter in its column; addresses are links. */
export const ScreenText = memo(function ScreenText({ text }: { text: string }) {
  const spans = useMemo(() => splitLinks(text), [text]);
  if (!text.trim()) {
    return (
      <p class="dots" role="status" aria-label="Answering">
        <span /> <span /> <span />
      </p>
    );
  }
  return (
    <pre class="screen-text">
      {spans.map(({ text, href }) =>
        href ? (
          <a href={href} target="_blank" rel="noopener noreferrer">
            {text}
          </a>
        ) : (
          text
        ),
      )}
    </pre>
  );
});
