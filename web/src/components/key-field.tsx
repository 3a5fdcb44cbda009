/** A field whose keys go to the agent one by one; the last ones are visible for a moment. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { AgentSession } from "../state/agent-session";
import { type TerminalKey, KEYS, control, terminalKey } from "../text/terminal-keys";

/** Milliseconds. */
const VISIBLE_FOR = 2000;
const BUTTONS: [string, TerminalKey][] = [
  ["Escape", KEYS.Escape],
  ["Tab", KEYS.Tab],
  ["Up", KEYS.ArrowUp],
  ["Down", KEYS.ArrowDown],
  ["Left", KEYS.ArrowLeft],
  ["Right", KEYS.ArrowRight],
  ["Enter", KEYS.Enter],
  ["Control C", control("c")],
];
/** Edits that on-screen keyboards report instead of keys. */
const EDITS: Record<string, TerminalKey> = {
  insertLineBreak: KEYS.Enter,
  insertParagraph: KEYS.Enter,
  deleteContentBackward: KEYS.Backspace,
  deleteContentForward: KEYS.Delete,
};

/** Keys that on-screen keyboards lack. */
export function KeyButtons({ press }: { press: (key: TerminalKey) => void }): JSX.Element {
  return (
    <div class="control-buttons" role="group" aria-label="Keys">
      {BUTTONS.map(([name, key]) => (
        <button key={name} type="button" aria-label={name} title={name} onClick={() => press(key)}>
          {key.label}
        </button>
      ))}
    </div>
  );
}

interface Tile {
  id: number;
  label: string;
}

export function KeyField({ agent, leave }: { agent: AgentSession; leave: () => void }): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  const [tiles, setTiles] = useState<Tile[]>([]);
  const count = useRef(0);
  useLayoutEffect(() => field.current?.focus(), []);
  const press = ({ bytes, label }: TerminalKey): void => {
    agent.press(bytes);
    const id = (count.current += 1);
    setTiles((before) => [...before.slice(-11), { id, label }]);
    setTimeout(() => setTiles((before) => before.filter((tile) => tile.id !== id)), VISIBLE_FOR);
  };
  const write = (text: string): void => {
    if (text) press({ bytes: text, label: text.length > 12 ? `${text.slice(0, 12)}…` : text });
  };
  const key = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    const isLeaving = event.key === "Escape" && event.shiftKey;
    const pressed = terminalKey(event);
    if (!pressed && !isLeaving) return;
    event.preventDefault();
    event.stopPropagation();
    if (isLeaving) leave();
    else if (pressed) press(pressed);
  };
  const edit = (event: InputEvent): void => {
    if (event.isComposing || event.inputType === "insertCompositionText") return;
    event.preventDefault();
    const edited = EDITS[event.inputType];
    if (edited) press(edited);
    else write(event.data ?? event.dataTransfer?.getData("text/plain") ?? "");
  };
  const paste = (event: ClipboardEvent): void => {
    event.preventDefault();
    write(event.clipboardData?.getData("text/plain") ?? "");
  };
  return (
    <div class="control">
      <textarea
        ref={field}
        rows={1}
        aria-label="Keys for the agent"
        placeholder="Keys go to the agent…"
        title="Shift+Esc returns to text"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        onKeyDown={key}
        onBeforeInput={(event) => edit(event as unknown as InputEvent)}
        onCompositionEnd={(event) => { write(event.data ?? ""); event.currentTarget.value = ""; }}
        onPaste={paste}
      />
      <ul class="tiles" aria-label="Keys sent">
        {tiles.map((tile) => (
          <li key={tile.id}>
            <kbd>{tile.label}</kbd>
          </li>
        ))}
      </ul>
      <KeyButtons press={(key) => { press(key); field.current?.focus(); }} />
    </div>
  );
}
