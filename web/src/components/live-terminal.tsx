/** The terminal of an agent as it is at this moment; keys that are typed in it are the agent's. */

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { mayAct } from "../state/app";
import { focusComposer } from "../state/prompt-draft";
import { type DrivenAgent, agentName } from "../state/agent-session";
import { followWhileSeen } from "../state/visible-stream";
import { terminalIsOpen } from "../state/session-list";
import { Follower, type Source } from "../api/event-stream";
import { KeyButtons } from "./key-field";
import { isPhone } from "./width";
import type { XtermView } from "./xterm";

const MANY_EMPTY_LINES = /\n(?:[ \t]*\n){4,}/g;

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** Feeds a terminal with a stream; the function that is returned ends both. */
function feed(view: XtermView, source: Source, refused: () => void): () => void {
  let isWaiting = true;
  const follower = new Follower(source, {
    connection: (state) => {
      if (state === "live") isWaiting = true;
    },
    frames: (frames) => {
      for (const frame of frames) {
        if (frame.type === "size") {
          if (isWaiting) view.reset(); // what comes draws all of it anew
          isWaiting = false;
          view.resize(frame["columns"], frame["rows"]);
        } else if (frame.type === "bytes") view.write(bytesOf(frame["data"]));
        else if (frame.type === "end") follower.close();
      }
    },
    refused,
  });
  return followWhileSeen(follower);
}

function Xterm({ agent, source, refused }: { agent: DrivenAgent; source: Source; refused: () => void }): JSX.Element {
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
        const made = (view.current = new loaded.XtermView(box.current, !mayAct(), owner));
        const stop = feed(made, source, refused);
        end = () => {
          stop();
          made.dispose();
        };
      },
      () => setProblem("The terminal cannot be loaded. Load the page again."),
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

/** A picture of the screen, where its bytes cannot be had. */
function Picture({ text }: { text: string }): JSX.Element {
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const one = box.current;
    if (one) one.scrollTop = one.scrollHeight;
  }, [text]);
  return (
    <pre class="terminal-box picture" ref={box} tabIndex={0} aria-label="Screen">
      {text.replace(MANY_EMPTY_LINES, "\n⋯\n")}
    </pre>
  );
}

export function LiveTerminal({ agent }: { agent: DrivenAgent }): JSX.Element {
  const [isRefused, refuse] = useState(false);
  const source = agent.terminal.value;
  const refused = (): void => {
    refuse(true);
    agent.wantScreen();
  };
  const isEnded = agent.state.value === "ended";
  return (
    <section class="agent-terminal" aria-label="Terminal">
      {source && !isRefused ? (
        <Xterm agent={agent} source={source} refused={refused} />
      ) : agent.screen.value ? (
        <Picture text={agent.screen.value} />
      ) : (
        <p class="hint">{isEnded ? `${agentName(agent.type.value)} has ended: its terminal is gone.` : "Nothing is shown yet."}</p>
      )}
      {isPhone.value && source && !isRefused && mayAct() && <KeyButtons press={(one) => agent.press(one.bytes)} />}
      <footer class="terminal-foot small-print">
        {source && !isRefused && (mayAct() ? <span>What you type here goes to the agent. <kbd>Shift</kbd> <kbd>Esc</kbd> leaves.</span> : <span>You may look on.</span>)}
        {isRefused && <span>Its screen, as text: the terminal itself cannot be had from here.</span>}
      </footer>
    </section>
  );
}
