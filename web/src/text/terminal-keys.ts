/** Keys as a keyboard sends them to a terminal. */

export interface TerminalKey {
  bytes: string;
  label: string;
}

const key = (bytes: string, label: string): TerminalKey => ({ bytes, label });

export const KEYS = {
  Escape: key("\x1b", "Esc"),
  Tab: key("\t", "Tab"),
  Enter: key("\r", "Enter"),
  Backspace: key("\x7f", "⌫"),
  Delete: key("\x1b[3~", "Del"),
  ArrowUp: key("\x1b[A", "↑"),
  ArrowDown: key("\x1b[B", "↓"),
  ArrowRight: key("\x1b[C", "→"),
  ArrowLeft: key("\x1b[D", "←"),
  Home: key("\x1b[H", "Home"),
  End: key("\x1b[F", "End"),
  PageUp: key("\x1b[5~", "PgUp"),
  PageDown: key("\x1b[6~", "PgDn"),
} as const;

type Key = Pick<KeyboardEvent, "key" | "ctrlKey" | "altKey" | "metaKey" | "shiftKey">;

export function control(letter: string): TerminalKey {
  return key(String.fromCharCode(letter.toUpperCase().charCodeAt(0) & 31), `Ctrl ${letter.toUpperCase()}`);
}

/** What a key press sends; null for one that belongs to the browser. */
export function terminalKey(event: Key): TerminalKey | null {
  const { key: name, ctrlKey, altKey, metaKey, shiftKey } = event;
  if (metaKey) return null;
  if (name === "Tab" && shiftKey) return key("\x1b[Z", "Shift Tab");
  const special = (KEYS as Record<string, TerminalKey | undefined>)[name];
  if (special) return altKey ? key(`\x1b${special.bytes}`, `Alt ${special.label}`) : special;
  if ([...name].length !== 1) return null;
  if (ctrlKey && !altKey) return /^[a-z]$/i.test(name) && name.toLowerCase() !== "v" ? control(name) : null;
  if (altKey && !ctrlKey) return key(`\x1b${name}`, `Alt ${name}`);
  return key(name, name === " " ? "Space" : name); // Ctrl and Alt together write letters on some keyboards
}
