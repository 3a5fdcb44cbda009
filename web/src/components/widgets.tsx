/** What extensions show: widgets above and below the line, a header, a footer, words of status. */

import type { JSX } from "preact";
import { plainText } from "../text/format";
import type { OpenSession } from "../state/open-session";
import type { Rendering } from "../api/types";
import { Markdown } from "./markdown";
import { RenderedLive } from "./extension-ui";
import { TerminalText } from "./terminal-text";

interface Shown {
  extension?: string;
  text?: string;
  markdown?: string;
  render?: Rendering | null;
  style?: { border?: string; borderless?: boolean };
  placement?: "above" | "below";
  priority?: number;
  order?: number;
}

function shownAt(live: ReadonlyMap<string, unknown>, place: "above" | "below" | "header" | "footer"): [string, Shown][] {
  const found: [string, Shown][] = [];
  for (const [name, value] of live) {
    const one = value as Shown;
    if (place === name) found.push([name, one]);
    else if (name.startsWith("widget:") && (one.placement ?? "above") === place) found.push([name, one]);
  }
  return inOrder(found);
}

function inOrder<T extends { priority?: number; order?: number }>(some: [string, T][]): [string, T][] {
  return some.sort(([, one], [, other]) => (one.priority ?? 0) - (other.priority ?? 0) || (one.order ?? 0) - (other.order ?? 0));
}

export function Widgets({ session, place }: { session: OpenSession; place: "above" | "below" | "header" | "footer" }): JSX.Element | null {
  const shown = shownAt(session.view.value.live, place).filter(([, one]) => one.text || one.markdown || one.render);
  if (!shown.length) return null;
  return (
    <div class={`widgets ${place}`}>
      {shown.map(([name, one]) => {
        const border = one.style?.border ?? "";
        const style = /^#[0-9a-f]{6}$/i.test(border) ? { borderColor: border } : undefined;
        const plain = one.markdown ? <Markdown text={one.markdown} /> : <pre><TerminalText text={one.text ?? ""} /></pre>;
        return (
          <div key={name} class={one.style?.borderless ? "widget borderless" : "widget"} style={style} role="status" aria-label={one.extension}>
            {one.render ? <RenderedLive key={one.render.id} session={session.id} rendering={one.render}>{plain}</RenderedLive> : plain}
          </div>
        );
      })}
    </div>
  );
}

export function Statuses({ session }: { session: OpenSession }): JSX.Element | null {
  const live = session.view.value.live;
  const found = inOrder([...live].flatMap(([name, value]): [string, Shown][] => (name.startsWith("status:") ? [[name, value as Shown]] : [])));
  if (!found.length) return null;
  return (
    <p class="statuses">
      {found.map(([name, one]) => (
        <span key={name}>{plainText(one.text ?? "")}</span>
      ))}
    </p>
  );
}
