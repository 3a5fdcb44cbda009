/** Lines that an extension draws: asked for again when the width changes, or as often as it wants. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Rendering } from "../api/types";
import { TerminalText } from "./terminal-text";
import { columns } from "./width";

/** Milliseconds between two questions: a page is asked for no film. */
const SHORTEST = 500;

type Ask = (width: number) => Promise<{ text: string | null }>;

/** The lines; undefined until they are known, null where nobody draws them. */
export function useRendered(of: string, ask: Ask | null, hz = 0): string | null | undefined {
  const [drawn, setDrawn] = useState<{ of: string; text: string | null }>();
  const width = columns.value;
  useEffect(() => {
    if (!ask) return undefined;
    let isGone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      if (!document.hidden) {
        const { text } = await ask(width).catch(() => ({ text: null }));
        if (isGone) return;
        setDrawn({ of, text });
      }
      if (hz) timer = setTimeout(() => void look(), Math.max(SHORTEST, 1000 / hz));
    };
    void look();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [of, width, hz, ask === null]);
  return drawn?.of === of ? drawn.text : undefined;
}

interface Properties {
  session: string;
  rendering: Rendering;
  /** What is shown where nobody draws. */
  children: ComponentChildren;
}

export function RenderedLive({ session, rendering, children }: Properties): JSX.Element | null {
  const text = useRendered(rendering.id, (width) => api.renderedLive(session, rendering.id, width), rendering.hz);
  if (text === null) return <>{children}</>;
  return text ? <Lines text={text} /> : null;
}

export function Lines({ text, label }: { text: string; label?: string }): JSX.Element {
  return (
    <pre class="drawn" aria-label={label} tabIndex={label ? 0 : undefined}>
      <TerminalText text={text} />
    </pre>
  );
}
