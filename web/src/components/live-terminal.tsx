/** The live terminal of an agent. Keys typed in it go to the agent. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type StreamSource, EventStream } from "../api/event-stream";
import { type AgentSession, agentName } from "../state/agent-session";
import { canAct } from "../state/app";
import { focusComposer } from "../state/prompt-draft";
import { terminalIsOpen } from "../state/session-list";
import { openVisibleStream } from "../state/visible-stream";
import { KeyButtons } from "./key-field";
import { isPhone } from "./width";
import type { XtermView } from "./xterm";

const MANY_EMPTY_LINES = /\n(?:[ \t]*\n){4,}/g;

function decodeBase64(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** Writes a stream to a terminal; the returned function closes the stream. */
function connect(view: XtermView, source: StreamSource, refused: () => void): () => void {
  let isWaiting = true;
  const stream = new EventStream(source, {
    connection: (state) => {
      if (state === "live") isWaiting = true;
    },
    events: (events) => {
      for (const event of events) {
        if (event.type === "size") {
          if (isWaiting) view.reset(); // a new stream repaints the whole screen
          isWaiting = false;
          view.resize(event["columns"], event["rows"]);
        } else if (event.type === "bytes") view.write(decodeBase64(event["data"]));
        else if (event.type === "end") stream.close();
      }
    },
    refused,
  });
  return openVisibleStream(stream);
}

function Xterm({ agent, source, refused }: { agent: AgentSession; source: StreamSource; refused: () => void }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<XtermView | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let end = (): void => {};
    let isGone = false;
    terminalIsOpen.value = true;
    import("./xterm").then(
      (loaded) => {
        if (isGone || !box.current) return;
        const owner = { typed: (keys: string) => agent.press(keys), left: focusComposer };
        const terminal = (view.current = new loaded.XtermView(box.current, !canAct(), owner));
        const stop = connect(terminal, source, refused);
        end = () => {
          stop();
          terminal.dispose();
        };
      },
      () => setProblem("The terminal could not be loaded. Reload the page."),
    );
    return () => {
      isGone = true;
      terminalIsOpen.value = false;
      end();
    };
  }, [agent, source]);
  return (
    <div class="terminal-box" ref={box} onClick={() => view.current?.focus()}>
      {problem && <p class="hint" role="alert">{problem}</p>}
    </div>
  );
}

/** The screen as text, where the bytes are not available. */
function Picture({ text }: { text: string }): JSX.Element {
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, [text]);
  return (
    <pre class="terminal-box picture" ref={box} tabIndex={0} aria-label="Screen">
      {text.replace(MANY_EMPTY_LINES, "\n⋯\n")}
    </pre>
  );
}

export function LiveTerminal({ agent }: { agent: AgentSession }): JSX.Element {
  const [isRefused, refuse] = useState(false);
  const source = agent.terminal.value;
  const refused = (): void => {
    refuse(true);
    agent.requestScreen();
  };
  const isEnded = agent.state.value === "ended";
  return (
    <section class="agent-terminal" aria-label="Terminal">
      {source && !isRefused ? (
        <Xterm agent={agent} source={source} refused={refused} />
      ) : agent.screen.value ? (
        <Picture text={agent.screen.value} />
      ) : (
        <p class="hint">{isEnded ? `${agentName(agent.type.value)} has ended: its terminal is closed.` : "Nothing to show yet."}</p>
      )}
      {isPhone.value && source && !isRefused && canAct() && <KeyButtons press={(key) => agent.press(key.bytes)} />}
      <footer class="terminal-foot small-print">
        {source && !isRefused && (canAct() ? <span>Keys go to the agent. <kbd>Shift</kbd> <kbd>Esc</kbd> leaves the terminal.</span> : <span>Read-only access</span>)}
        {isRefused && <span>The screen as text: the terminal itself is not available here.</span>}
      </footer>
    </section>
  );
}
