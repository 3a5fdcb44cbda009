/** What an agent drew on its terminal: every letter in its column, addresses as links. */

import { useMemo } from "preact/hooks";
import { linkPieces } from "../text/links";
import { memo } from "./memo";

export const DrawnText = memo(function DrawnText({ text }: { text: string }) {
  const pieces = useMemo(() => linkPieces(text), [text]);
  if (!text.trim()) {
    return (
      <p class="dots" role="status" aria-label="It answers">
        <span /> <span /> <span />
      </p>
    );
  }
  return (
    <pre class="drawn-text">
      {pieces.map(({ text, href }) =>
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
