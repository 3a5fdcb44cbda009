/** Text with ANSI colour sequences as spans. */

import { plainText } from "./format";

export interface StyledSpan {
  text: string;
  classes: string;
  /** Colours without a class. */
  style?: { color?: string; backgroundColor?: string };
}

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const LEVELS = [0, 95, 135, 175, 215, 255];
const FLAGS = new Map([
  [1, "bold"],
  [2, "dim"],
  [3, "italic"],
  [4, "underline"],
  [7, "inverse"],
  [9, "strike"],
]);
const ENDS = new Map([
  [22, ["bold", "dim"]],
  [23, ["italic"]],
  [24, ["underline"]],
  [27, ["inverse"]],
  [29, ["strike"]],
]);

/** Colours are names or `#rrggbb`; empty for the page's own. */
interface Style {
  color: string;
  background: string;
  flags: ReadonlySet<string>;
}

const PLAIN: Style = { color: "", background: "", flags: new Set() };

function hex(...parts: number[]): string {
  return `#${parts.map((part) => Math.max(0, Math.min(255, part || 0)).toString(16).padStart(2, "0")).join("")}`;
}

function indexed(index: number): string {
  if (index < 16) return NAMES[index % 8] ?? "";
  if (index > 231) return hex(...[0, 0, 0].map(() => 8 + 10 * (index - 232)));
  const cube = index - 16;
  return hex(...[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((part) => LEVELS[part] ?? 0));
}

/** The colour after 38 or 48, and how many numbers it has. */
function extended(numbers: readonly number[], at: number): [string, number] {
  if (numbers[at + 1] === 5) return [indexed(numbers[at + 2] ?? 0), 2];
  return [hex(numbers[at + 2] ?? 0, numbers[at + 3] ?? 0, numbers[at + 4] ?? 0), 4];
}

function withCodes(before: Style, codes: string): Style {
  let { color, background } = before;
  const flags = new Set(before.flags);
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at] ?? 0;
    const tens = Math.floor(code / 10);
    const flag = FLAGS.get(code);
    if (code === 0) {
      [color, background] = ["", ""];
      flags.clear();
    } else if (flag) flags.add(flag);
    else if (ENDS.has(code)) for (const ended of ENDS.get(code) ?? []) flags.delete(ended);
    else if (code === 39) color = "";
    else if (code === 49) background = "";
    else if (code === 38 || code === 48) {
      const [extendedColor, length] = extended(numbers, at);
      if (code === 38) color = extendedColor;
      else background = extendedColor;
      at += length;
    } else if ((tens === 3 || tens === 9) && code % 10 < 8) color = NAMES[code % 10] ?? "";
    else if ((tens === 4 || tens === 10) && code % 10 < 8) background = NAMES[code % 10] ?? "";
  }
  return { color, background, flags };
}

function span(text: string, { color, background, flags }: Style): StyledSpan {
  const classes: string[] = [];
  const style: StyledSpan["style"] = {};
  if (color.startsWith("#")) style.color = color;
  else if (color) classes.push(`ansi-${color}`);
  if (background.startsWith("#")) style.backgroundColor = background;
  else if (background) classes.push(`ansi-on-${background}`);
  for (const flag of flags) classes.push(`ansi-${flag}`);
  return { text, classes: classes.join(" "), ...(Object.keys(style).length ? { style } : {}) };
}

export function parseAnsi(text: string): StyledSpan[] {
  if (!text.includes("\x1b")) return [{ text: plainText(text), classes: "" }];
  const spans: StyledSpan[] = [];
  let style = PLAIN;
  let at = 0;
  const add = (part: string): void => {
    const plain = plainText(part);
    if (plain) spans.push(span(plain, style));
  };
  for (const match of text.matchAll(/\x1b\[([\d;:]*)m/g)) {
    add(text.slice(at, match.index));
    style = withCodes(style, match[1] ?? "");
    at = match.index + match[0].length;
  }
  add(text.slice(at));
  return spans;
}
