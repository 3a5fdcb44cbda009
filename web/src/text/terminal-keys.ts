/** Keys as a keyboard sends them to a terminal. */

export interface Pressed {
  bytes: string;
  /** What is written on it. */
  shown: string;
}

const named = (bytes: string, shown: string): Pressed => ({ bytes, shown });

export const KEYS = {
  Escape: named("\x1b", "Esc"),
  Tab: named("\t", "Tab"),
  Enter: named("\r", "Enter"),
  Backspace: named("\x7f", "⌫"),
  Delete: named("\x1b[3~", "Del"),
  ArrowUp: named("\x1b[A", "↑"),
  ArrowDown: named("\x1b[B", "↓"),
  ArrowRight: named("\x1b[C", "→"),
  ArrowLeft: named("\x1b[D", "←"),
  Home: named("\x1b[H", "Home"),
  End: named("\x1b[F", "End"),
  PageUp: named("\x1b[5~", "PgUp"),
  PageDown: named("\x1b[6~", "PgDn"),
} as const;

type Key = Pick<KeyboardEvent, "key" | "ctrlKey" | "altKey" | "metaKey" | "shiftKey">;

export function control(letter: string): Pressed {
  return named(String.fromCharCode(letter.toUpperCase().charCodeAt(0) & 31), `Ctrl ${letter.toUpperCase()}`);
}

/** What a key sends; null for one that is the browser's. */
export function pressed(event: Key): Pressed | null {
  const { key, ctrlKey, altKey, metaKey, shiftKey } = event;
  if (metaKey) return null;
  if (key === "Tab" && shiftKey) return named("\x1b[Z", "Shift Tab");
  const known = (KEYS as Record<string, Pressed | undefined>)[key];
  if (known) return altKey ? named(`\x1b${known.bytes}`, `Alt ${known.shown}`) : known;
  if ([...key].length !== 1) return null;
  if (ctrlKey && !altKey) return /^[a-z]$/i.test(key) && key.toLowerCase() !== "v" ? control(key) : null;
  if (altKey && !ctrlKey) return named(`\x1b${key}`, `Alt ${key}`);
  return named(key, key === " " ? "Space" : key); // Ctrl and Alt together write letters on some keyboards
}
