/** Code in colours: pieces of text with their classes. Loaded when the first code is shown. */

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import lua from "highlight.js/lib/languages/lua";
import makefile from "highlight.js/lib/languages/makefile";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import shell from "highlight.js/lib/languages/shell";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = {
  bash, c, cpp, csharp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, lua, makefile, markdown,
  php, python, ruby, rust, shell, sql, swift, typescript, xml, yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

export interface Piece {
  text: string;
  classes: string;
}

export function languageKnown(name: string): boolean {
  return Boolean(name && hljs.getLanguage(name));
}

export function highlighted(code: string, language: string): Piece[] {
  const html = hljs.highlight(code, { language, ignoreIllegals: true }).value;
  return piecesOf(html);
}

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

/** The highlighter writes spans and text with five entities, and nothing else; both are read back as data. */
export function piecesOf(html: string): Piece[] {
  const pieces: Piece[] = [];
  const open: string[] = [];
  for (const [part] of html.matchAll(/<span class="[^"]*">|<\/span>|[^<]+/g)) {
    if (part === "</span>") open.pop();
    else if (part.startsWith("<")) open.push(part.slice('<span class="'.length, -2));
    else {
      const text = part.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity] ?? entity);
      pieces.push({ text, classes: open.join(" ") });
    }
  }
  return pieces;
}

/** By lines, for code that is shown line by line. */
export function highlightedLines(code: string, language: string): Piece[][] {
  const lines: Piece[][] = [[]];
  for (const piece of highlighted(code, language)) {
    piece.text.split("\n").forEach((text, place) => {
      if (place) lines.push([]);
      if (text) lines.at(-1)?.push({ text, classes: piece.classes });
    });
  }
  return lines;
}
