/** What a program printed for a terminal, as pieces with classes for its colours. */

import { plainText } from "./words";

export interface Printed {
  text: string;
  classes: string;
}

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

interface Pen {
  color: string;
  bold: boolean;
  dim: boolean;
}

function moved(pen: Pen, codes: string): Pen {
  let { color, bold, dim } = pen;
  const numbers = codes.split(";").map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at] ?? 0;
    if (code === 0) [color, bold, dim] = ["", false, false];
    else if (code === 1) bold = true;
    else if (code === 2) dim = true;
    else if (code === 22) [bold, dim] = [false, false];
    else if (code === 39) color = "";
    else if (code >= 30 && code <= 37) color = NAMES[code - 30] ?? "";
    else if (code >= 90 && code <= 97) color = NAMES[code - 90] ?? "";
    else if (code === 38 || code === 48) at += numbers[at + 1] === 5 ? 2 : 4;
  }
  return { color, bold, dim };
}

export function terminalPieces(text: string): Printed[] {
  if (!text.includes("\x1b")) return [{ text: plainText(text), classes: "" }];
  const pieces: Printed[] = [];
  let pen: Pen = { color: "", bold: false, dim: false };
  let at = 0;
  const add = (piece: string): void => {
    const shown = plainText(piece);
    if (!shown) return;
    const classes = [pen.color && `ansi-${pen.color}`, pen.bold && "ansi-bold", pen.dim && "ansi-dim"];
    pieces.push({ text: shown, classes: classes.filter(Boolean).join(" ") });
  };
  for (const found of text.matchAll(/\x1b\[([\d;]*)m/g)) {
    add(text.slice(at, found.index));
    pen = moved(pen, found[1] ?? "");
    at = found.index + found[0].length;
  }
  add(text.slice(at));
  return pieces;
}
