/** Where each key goes to the agent as it is pressed; what was sent is seen for a moment. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { KEYS, type Pressed, control, pressed } from "../text/terminal-keys";
import type { DrivenAgent } from "../state/agent-session";

const SEEN_FOR = 2000;
const BUTTONS: [string, Pressed][] = [
  ["Escape", KEYS.Escape],
  ["Tab", KEYS.Tab],
  ["Up", KEYS.ArrowUp],
  ["Down", KEYS.ArrowDown],
  ["Left", KEYS.ArrowLeft],
  ["Right", KEYS.ArrowRight],
  ["Enter", KEYS.Enter],
  ["Control C", control("c")],
];
/** What a keyboard on a screen tells instead of keys. */
const EDITS: Record<string, Pressed> = {
  insertLineBreak: KEYS.Enter,
  insertParagraph: KEYS.Enter,
  deleteContentBackward: KEYS.Backspace,
  deleteContentForward: KEYS.Delete,
};

/** Keys that a keyboard on a screen does not have. */
export function KeyButtons({ press }: { press: (one: Pressed) => void }): JSX.Element {
  return (
    <div class="control-buttons" role="group" aria-label="Keys">
      {BUTTONS.map(([name, one]) => (
        <button key={name} type="button" aria-label={name} title={name} onClick={() => press(one)}>
          {one.shown}
        </button>
      ))}
    </div>
  );
}

interface Tile {
  id: number;
  shown: string;
}

export function ControlField({ agent, leave }: { agent: DrivenAgent; leave: () => void }): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  const [tiles, setTiles] = useState<Tile[]>([]);
  const count = useRef(0);
  useLayoutEffect(() => field.current?.focus(), []);
  const press = (one: Pressed): void => {
    agent.press(one.bytes);
    const id = (count.current += 1);
    setTiles((before) => [...before.slice(-11), { id, shown: one.shown }]);
    setTimeout(() => setTiles((before) => before.filter((tile) => tile.id !== id)), SEEN_FOR);
  };
  const write = (text: string): void => {
    if (text) press({ bytes: text, shown: text.length > 12 ? `${text.slice(0, 12)}…` : text });
  };
  const key = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    const isLeaving = event.key === "Escape" && event.shiftKey;
    const one = pressed(event);
    if (!one && !isLeaving) return;
    event.preventDefault();
    event.stopPropagation();
    if (isLeaving) leave();
    else if (one) press(one);
  };
  const edit = (event: InputEvent): void => {
    if (event.isComposing || event.inputType === "insertCompositionText") return;
    event.preventDefault();
    const one = EDITS[event.inputType];
    if (one) press(one);
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
        placeholder="Each key goes to the agent…"
        title="Shift+Esc goes back to text"
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
            <kbd>{tile.shown}</kbd>
          </li>
        ))}
      </ul>
      <KeyButtons press={(one) => { press(one); field.current?.focus(); }} />
    </div>
  );
}
