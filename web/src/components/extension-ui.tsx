/** What extensions show: widgets, headers, footers, status, and lines that they render. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/client";
import type { Rendering } from "../api/types";
import type { OpenSession } from "../state/open-session";
import { plainText } from "../text/format";
import { Markdown } from "./markdown";
import { TerminalText } from "./terminal-text";
import { columns } from "./width";

/** The shortest time between two renderings, in milliseconds. */
const MIN_INTERVAL = 500;

type Render = (width: number) => Promise<{ text: string | null }>;

/** The lines that an extension renders for this width, again every `1/hz` seconds; undefined until they arrive, null if
 * no extension renders them.
 */
export function useRendered(key: string, render: Render | null, hz = 0): string | null | undefined {
  const [rendered, setRendered] = useState<{ key: string; text: string | null }>();
  const width = columns.value;
  useEffect(() => {
    if (!render) return undefined;
    let isGone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refresh = async (): Promise<void> => {
      if (!document.hidden) {
        const { text } = await render(width).catch(() => ({ text: null }));
        if (isGone) return;
        setRendered({ key, text });
      }
      if (hz) timer = setTimeout(() => void refresh(), Math.max(MIN_INTERVAL, 1000 / hz));
    };
    void refresh();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [key, width, hz, render === null]);
  return rendered?.key === key ? rendered.text : undefined;
}

interface Properties {
  session: string;
  rendering: Rendering;
  /** Shown if no extension renders it. */
  children: ComponentChildren;
}

export function RenderedLive({ session, rendering, children }: Properties): JSX.Element | null {
  const text = useRendered(rendering.id, (width) => api.renderedLive(session, rendering.id, width), rendering.hz);
  if (text === null) return <>{children}</>;
  return text ? <Lines text={text} /> : null;
}

export function Lines({ text, label }: { text: string; label?: string }): JSX.Element {
  return (
    <pre class="rendered" aria-label={label} tabIndex={label ? 0 : undefined}>
      <TerminalText text={text} />
    </pre>
  );
}

interface Widget {
  extension?: string;
  text?: string;
  markdown?: string;
  render?: Rendering | null;
  style?: { border?: string; borderless?: boolean };
  placement?: "above" | "below";
  priority?: number;
  order?: number;
}

function widgetsAt(live: ReadonlyMap<string, unknown>, place: "above" | "below" | "header" | "footer"): [string, Widget][] {
  const widgets: [string, Widget][] = [];
  for (const [name, value] of live) {
    const widget = value as Widget;
    if (place === name) widgets.push([name, widget]);
    else if (name.startsWith("widget:") && (widget.placement ?? "above") === place) widgets.push([name, widget]);
  }
  return inOrder(widgets);
}

function inOrder(widgets: [string, Widget][]): [string, Widget][] {
  return widgets.sort(([, first], [, second]) => (first.priority ?? 0) - (second.priority ?? 0) || (first.order ?? 0) - (second.order ?? 0));
}

export function Widgets({ session, place }: { session: OpenSession; place: "above" | "below" | "header" | "footer" }): JSX.Element | null {
  const widgets = widgetsAt(session.view.value.liveValues, place).filter(([, widget]) => widget.text || widget.markdown || widget.render);
  if (!widgets.length) return null;
  return (
    <div class={`widgets ${place}`}>
      {widgets.map(([name, { extension, text, markdown, render, style: look }]) => {
        const border = look?.border ?? "";
        const style = /^#[0-9a-f]{6}$/i.test(border) ? { borderColor: border } : undefined;
        const plain = markdown ? <Markdown text={markdown} /> : <pre><TerminalText text={text ?? ""} /></pre>;
        return (
          <div key={name} class={look?.borderless ? "widget borderless" : "widget"} style={style} role="status" aria-label={extension}>
            {render ? <RenderedLive key={render.id} session={session.id} rendering={render}>{plain}</RenderedLive> : plain}
          </div>
        );
      })}
    </div>
  );
}

export function ExtensionStatus({ session }: { session: OpenSession }): JSX.Element | null {
  const statuses = inOrder([...session.view.value.liveValues].flatMap(([name, value]): [string, Widget][] => (name.startsWith("status:") ? [[name, value as Widget]] : [])));
  if (!statuses.length) return null;
  return (
    <p class="statuses">
      {statuses.map(([name, { text = "" }]) => (
        <span key={name}>{plainText(text)}</span>
      ))}
    </p>
  );
}
