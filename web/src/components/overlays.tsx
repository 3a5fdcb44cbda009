/** Windows over the page: a new session, the model, the keys, a new title, and whether to delete. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { wordsOf } from "../text/command-line";
import { attempt, me, overlay, stored, store, toast } from "../state/app";
import { begunAndLeft, rememberBegun } from "../state/empty-session";
import { focusComposer } from "../state/prompt-draft";
import { current, type OpenSession } from "../state/open-session";
import { goTo } from "../state/route";
import { refreshList, sessions } from "../state/session-list";
import { api } from "../api/client";
import { Dialog } from "./dialog";
import { titleOf } from "./header";
import { ModelPicker } from "./model-picker";
import { Palette } from "./command-palette";
import { UsageDialog } from "./usage-dialog";
import { chooseAndImport } from "./session-import";

const close = (): void => {
  overlay.value = "";
};

/** In that folder; with another vendor's agent, if a command is named. */
export async function begin(cwd: string, command: string): Promise<void> {
  const asked = overlay.value;
  const words = wordsOf(command);
  const left = words.length ? "" : await begunAndLeft(cwd);
  const id = left || (await attempt(() => api.create({ ...(cwd && { cwd }), ...(words.length && { agent: { command: words } }) })))?.id;
  if (!id) return;
  store("cwd", cwd);
  if (words.length) store("agent-command", command);
  else rememberBegun(cwd, id);
  if (overlay.value === asked) close();
  void refreshList();
  goTo(id);
  setTimeout(focusComposer, 50);
}

const COMMANDS = ["claude", "codex", "gemini", "opencode", "aider", "goose", "copilot", "amp", "cursor-agent", "auggie", "q"];

function NewSession(): JSX.Element {
  const [cwd, setCwd] = useState(current.value?.view.value.cwd || stored("cwd", "") || me.value?.cwd || "");
  const [command, setCommand] = useState("");
  const commands = [...new Set([stored("agent-command", ""), ...COMMANDS])].filter(Boolean);
  const known = [...new Set([me.value?.cwd ?? "", ...sessions.value.map((one) => one.cwd)])].filter(Boolean).slice(0, 8);
  return (
    <Dialog title="New session" onClose={close}>
      <form onSubmit={(event) => { event.preventDefault(); void begin(cwd.trim(), command); }}>
        <label for="new-cwd">Folder to work in</label>
        <input id="new-cwd" type="text" value={cwd} autofocus spellcheck={false} autocomplete="off" onInput={(event) => setCwd(event.currentTarget.value)} />
        {known.length > 0 && (
          <ul class="folders" aria-label="Folders">
            {known.map((folder) => (
              <li key={folder}>
                <button type="button" class={folder === cwd ? "chip chosen" : "chip"} onClick={() => setCwd(folder)}>
                  {folder}
                </button>
              </li>
            ))}
          </ul>
        )}
        <details class="another-agent">
          <summary>Another vendor's agent</summary>
          <label for="new-agent">Command that starts it; it is shown with its terminal</label>
          <input id="new-agent" type="text" value={command} list="new-agent-commands" placeholder="claude --permission-mode plan" spellcheck={false} autocomplete="off" autocapitalize="off" onInput={(event) => setCommand(event.currentTarget.value)} />
          <datalist id="new-agent-commands">
            {commands.map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
        </details>
        <div class="dialog-actions">
          <button type="button" class="quiet" onClick={() => chooseAndImport(cwd.trim())}>
            Import a file
          </button>
          <span class="spring" />
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Begin
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Rename({ session }: { session: OpenSession }): JSX.Element {
  const [title, setTitle] = useState(titleOf(session));
  const submit = (event: Event): void => {
    event.preventDefault();
    if (title.trim()) void session.request({ type: "rename", title: title.trim() });
    close();
  };
  return (
    <Dialog title="Rename" onClose={close}>
      <form onSubmit={submit}>
        <input type="text" aria-label="Title" value={title} autofocus onInput={(event) => setTitle(event.currentTarget.value)} onFocus={(event) => event.currentTarget.select()} />
        <div class="dialog-actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Rename
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Delete({ session }: { session: OpenSession }): JSX.Element {
  const remove = async (): Promise<void> => {
    close();
    const gone = await attempt(async () => {
      await api.delete(session.id);
      return true;
    });
    if (!gone) return;
    toast("Deleted.");
    if (current.value === session) goTo("");
    void refreshList();
  };
  return (
    <Dialog title="Delete this session?" onClose={close}>
      <p>“{titleOf(session)}” and the sessions of its children are removed for good.</p>
      <div class="dialog-actions">
        <button type="button" autofocus onClick={close}>
          Keep it
        </button>
        <button type="button" class="danger" onClick={() => void remove()}>
          Delete
        </button>
      </div>
    </Dialog>
  );
}

export const KEYS: [string, string][] = [
  ["Enter", "send; while it works: queue as the next prompt"],
  ["Ctrl Enter", "steer: tell the running model at its next step"],
  ["Shift Enter", "a new line; Alt Enter too"],
  ["/", "commands and templates; outside of the line: go to it"],
  ["@", "mention a file"],
  ["↑", "an earlier prompt, in an empty line"],
  ["Esc Esc", "stop"],
  ["y  n  1–9", "answer a question; s, p, u: always in the session, the project, everywhere"],
  ["Ctrl K", "everything there is to do, and all sessions"],
  ["n", "new session"],
  ["s", "search sessions and messages"],
  ["Alt ↑  Alt ↓", "the session before, the next session"],
  ["j  k", "next block, block before"],
  ["o", "open or fold the block"],
  ["End", "to the latest"],
  ["m", "model and reasoning"],
  ["t  b  c  p", "to do, branches, context, permissions"],
  ["u", "what all sessions have used"],
  ["d", "dark, light, or as the system"],
  ["?", "these keys"],
];

function Help(): JSX.Element {
  return (
    <Dialog title="Keys" onClose={close} wide>
      <dl class="keys">
        {KEYS.map(([keys, said]) => (
          <div key={keys}>
            <dt>
              {keys.split(/ +/).map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{said}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

export function Overlays(): JSX.Element | null {
  const session = current.value;
  switch (overlay.value) {
    case "new":
      return <NewSession />;
    case "help":
      return <Help />;
    case "palette":
      return <Palette />;
    case "model":
      return session && <ModelPicker session={session} />;
    case "rescue":
      return session && <ModelPicker session={session} goesOn />;
    case "usage":
      return <UsageDialog />;
    case "rename":
      return session && <Rename session={session} />;
    case "delete":
      return session && <Delete session={session} />;
    default:
      return null;
  }
}
