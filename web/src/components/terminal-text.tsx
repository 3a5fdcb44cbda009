/** Text with the colours of terminals, as elements. */

import { useMemo } from "preact/hooks";
import { terminalPieces } from "../text/ansi";
import { memo } from "./memo";

export const TerminalText = memo(function TerminalText({ text }: { text: string }) {
  const pieces = useMemo(() => terminalPieces(text), [text]);
  return (
    <>
      {pieces.map((piece) =>
        piece.classes || piece.style ? (
          <span class={piece.classes} style={piece.style}>
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </>
  );
});
