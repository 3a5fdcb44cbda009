/** Syntax highlighting: spans of text with their classes. Loaded with the first code. */

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

export interface CodeSpan {
  text: string;
  classes: string;
}

export function hasLanguage(name: string): boolean {
  return Boolean(name && hljs.getLanguage(name));
}

export function highlight(code: string, language: string): CodeSpan[] {
  const html = hljs.highlight(code, { language, ignoreIllegals: true }).value;
  return parseHighlighted(html);
}

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

/** highlight.js writes only `<span>` elements and text with five entities. */
export function parseHighlighted(html: string): CodeSpan[] {
  const spans: CodeSpan[] = [];
  const open: string[] = [];
  for (const [part] of html.matchAll(/<span class="[^"]*">|<\/span>|[^<]+/g)) {
    if (part === "</span>") open.pop();
    else if (part.startsWith("<")) open.push(part.slice('<span class="'.length, -2));
    else {
      const text = part.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity] ?? entity);
      spans.push({ text, classes: open.join(" ") });
    }
  }
  return spans;
}

export function highlightLines(code: string, language: string): CodeSpan[][] {
  const lines: CodeSpan[][] = [[]];
  for (const span of highlight(code, language)) {
    span.text.split("\n").forEach((text, index) => {
      if (index) lines.push([]);
      if (text) lines.at(-1)?.push({ text, classes: span.classes });
    });
  }
  return lines;
}
