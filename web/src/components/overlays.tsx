/** The dialogs: new session, rename, delete, keyboard shortcuts; and which one is open. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../api/client";
import { allowedProfiles, attempt, me, overlay, store, stored, toast } from "../state/app";
import { findEmptySession, rememberEmptySession } from "../state/empty-session";
import { type OpenSession, current } from "../state/open-session";
import { focusComposer } from "../state/prompt-draft";
import { openSession } from "../state/route";
import { refreshList, sessions } from "../state/session-list";
import { splitCommandLine } from "../text/prompt";
import { Palette } from "./command-palette";
import { Dialog } from "./dialog";
import { titleOf } from "./header";
import { ModelPicker } from "./model-picker";
import { importSession } from "./session-import";
import { UsageDialog } from "./usage-dialog";

const close = (): void => {
  overlay.value = "";
};

/** Creates a session in a folder, for another vendor's agent if there is a command. */
export async function createSession(cwd: string, command: string, permissions = ""): Promise<void> {
  const dialog = overlay.value;
  const words = splitCommandLine(command);
  const empty = words.length || permissions ? "" : await findEmptySession(cwd);
  const wanted = words.length ? { agent: { command: words } } : permissions ? { permissions } : {};
  const id = empty || (await attempt(() => api.create({ ...(cwd && { cwd }), ...wanted })))?.id;
  if (!id) return;
  store("cwd", cwd);
  if (words.length) store("agent-command", command);
  else if (!permissions) rememberEmptySession(cwd, id);
  if (overlay.value === dialog) close();
  void refreshList();
  openSession(id);
  setTimeout(focusComposer, 50);
}

const COMMANDS = ["claude", "codex", "gemini", "opencode", "aider", "goose", "copilot", "amp", "cursor-agent", "auggie", "q"];

function NewSession(): JSX.Element {
  const [cwd, setCwd] = useState(current.value?.view.value.cwd || stored("cwd", "") || me.value?.cwd || "");
  const [command, setCommand] = useState("");
  const [permissions, setPermissions] = useState("");
  const commands = [...new Set([stored("agent-command", ""), ...COMMANDS])].filter(Boolean);
  const folders = [...new Set([me.value?.cwd ?? "", ...sessions.value.map((session) => session.cwd)])].filter(Boolean).slice(0, 8);
  return (
    <Dialog title="New session" onClose={close}>
      <form onSubmit={(event) => { event.preventDefault(); void createSession(cwd.trim(), command, permissions); }}>
        <label for="new-cwd">Working directory</label>
        <input id="new-cwd" type="text" value={cwd} autofocus spellcheck={false} autocomplete="off" onInput={(event) => setCwd(event.currentTarget.value)} />
        {folders.length > 0 && (
          <ul class="folders" aria-label="Folders">
            {folders.map((folder) => (
              <li key={folder}>
                <button type="button" class={folder === cwd ? "chip chosen" : "chip"} onClick={() => setCwd(folder)}>
                  {folder}
                </button>
              </li>
            ))}
          </ul>
        )}
        <label for="new-permissions">Permissions</label>
        <select id="new-permissions" value={permissions} onChange={(event) => setPermissions(event.currentTarget.value)}>
          <option value="">As configured{me.value?.cwd === cwd.trim() && me.value.permissions ? `: ${me.value.permissions}` : ""}</option>
          {allowedProfiles().map((profile) => (
            <option key={profile} value={profile}>
              {profile}
            </option>
          ))}
        </select>
        <details class="another-agent">
          <summary>Another vendor's agent</summary>
          <label for="new-agent">Start command</label>
          <input id="new-agent" type="text" value={command} list="new-agent-commands" placeholder="claude --permission-mode plan" spellcheck={false} autocomplete="off" autocapitalize="off" onInput={(event) => setCommand(event.currentTarget.value)} />
          <datalist id="new-agent-commands">
            {commands.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </details>
        <div class="dialog-actions">
          <button type="button" class="quiet" onClick={() => importSession(cwd.trim())}>
            Import a file
          </button>
          <span class="spring" />
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Start
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
    const isDone = await attempt(async () => {
      await api.delete(session.id);
      return true;
    });
    if (!isDone) return;
    toast("Deleted.");
    if (current.value === session) openSession("");
    void refreshList();
  };
  return (
    <Dialog title="Delete this session?" onClose={close}>
      <p>“{titleOf(session)}” and its child sessions will be deleted permanently.</p>
      <div class="dialog-actions">
        <button type="button" autofocus onClick={close}>
          Cancel
        </button>
        <button type="button" class="danger" onClick={() => void remove()}>
          Delete
        </button>
      </div>
    </Dialog>
  );
}

export const KEYS: [string, string][] = [
  ["Enter", "send; during a run: queue as the next prompt"],
  ["Ctrl Enter", "steer: send to the model before its next step"],
  ["Shift Enter", "new line (also Alt Enter)"],
  ["/", "commands and templates; outside the composer: focus it"],
  ["@", "mention a file"],
  ["↑", "previous prompt, in an empty composer"],
  ["Esc Esc", "stop the run"],
  ["Alt+Q", "move to the question; ↑ ↓, 1–9 or its letter selects an answer, Enter confirms it, text denies with a reason"],
  ["Ctrl K", "command palette"],
  ["n", "new session"],
  ["s", "search sessions and messages"],
  ["Alt ↑  Alt ↓", "previous, next session"],
  ["j  k", "next, previous item"],
  ["o", "expand or collapse the item"],
  ["End", "scroll to the end"],
  ["m", "model and reasoning"],
  ["t  b  c  p", "to do, branches, context, permissions"],
  ["u", "usage of all sessions"],
  ["d", "switch theme"],
  ["?", "keyboard shortcuts"],
];

function Help(): JSX.Element {
  return (
    <Dialog title="Keyboard shortcuts" onClose={close} wide>
      <dl class="keys">
        {KEYS.map(([keys, action]) => (
          <div key={keys}>
            <dt>
              {keys.split(/ +/).map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{action}</dd>
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
    case "fallback":
      return session && <ModelPicker session={session} isFallback />;
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
