import { describe, expect, it } from "vitest";
import type { Schema } from "../src/api/types";
import { parseAnsi } from "../src/text/ansi";
import { changedRange, countChanges, editDiff, parseUnifiedDiff, sideBySide } from "../src/text/diff";
import { formAnswer, formFields } from "../src/text/form-fields";
import { dollars, duration, plainText, relativeTime, shortTokens } from "../src/text/format";
import { highlightLines, parseHighlighted } from "../src/text/highlight";
import { safeAddress } from "../src/text/links";
import { decodeEntities, parseMarkdown } from "../src/text/markdown";
import { partialArguments, partialJson } from "../src/text/partial-json";
import { insertMention, matchingCommands, mentionBefore, parseCommand } from "../src/text/prompt";
import { treeRows } from "../src/transcript/tree-rows";

describe("JSON that is still being written", () => {
  const whole = { path: "a.py", content: 'line "one"\n\tüñ 🐴 \\ end', edits: [{ old_text: "x", n: -1.5, yes: true }], none: null };
  it("is parsed at every length, and complete values never change", () => {
    const json = JSON.stringify(whole);
    for (let length = 0; length <= json.length; length += 1) {
      const found = partialArguments(json.slice(0, length));
      if (found["path"] !== undefined) expect(whole.path.startsWith(found["path"] as string)).toBe(true);
      if (found["content"] !== undefined) expect(whole.content.startsWith(found["content"] as string)).toBe(true);
    }
    expect(partialJson(json)).toEqual(whole);
  });
  it("leaves out a cut-off escape and half a surrogate pair", () => {
    expect(partialJson('{"a": "x\\')).toEqual({ a: "x" });
    expect(partialJson('{"a": "x\\u00')).toEqual({ a: "x" });
    expect(partialJson('{"a": "x\\ud83d')).toEqual({ a: "x" });
    expect(partialJson('{"a": "x\\\\')).toEqual({ a: "x\\" });
  });
  it("ignores an incomplete name", () => {
    expect(partialJson('{"path": "a", "cont')).toEqual({ path: "a" });
    expect(partialJson("[1, 2")).toEqual([1, 2]);
    expect(partialJson("")).toBeUndefined();
    expect(partialJson("}{")).toBeUndefined();
  });
  it("cannot reach a prototype", () => {
    const found = partialJson('{"__proto__": {"polluted": 1}, "a') as Record<string, unknown>;
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(Object.keys(found)).toEqual(["__proto__"]);
  });
});

describe("a diff", () => {
  const lines = parseUnifiedDiff("--- a\n+++ b\n@@ -3,3 +3,4 @@ def f():\n same\n-old\n+new\n+more\n same\n\\ No newline at end of file\n");
  it("has line numbers", () => {
    expect(lines.map((line) => [line.kind, line.before, line.after])).toEqual([
      ["gap", 0, 0], ["same", 3, 3], ["removed", 4, 0], ["added", 0, 4], ["added", 0, 5], ["same", 5, 6],
    ]);
    expect(countChanges(lines)).toEqual({ added: 2, removed: 1 });
  });
  it("has removed lines beside the lines that replace them", () => {
    const rows = sideBySide(lines).map(({ left, right }) => [left?.text ?? null, right?.text ?? null]);
    expect(rows).toEqual([["def f():", "def f():"], ["same", "same"], ["old", "new"], [null, "more"], ["same", "same"]]);
  });
  it("grows with the edits of a call", () => {
    expect(editDiff([{ old_text: "a\nb" }], false).map((line) => line.kind)).toEqual(["same", "same"]);
    expect(editDiff([{ old_text: "a\nb", new_text: "a\nc" }], true).map((line) => line.kind)).toEqual(["same", "removed", "added"]);
    expect(editDiff("nonsense", true)).toEqual([]);
    expect(editDiff([null, 3, {}], true)).toEqual([]);
  });
  it("marks the changed part of a line", () => {
    expect(changedRange("most_common(10)", "most_common(20)")).toEqual([12, 13, 13]);
    expect(changedRange("entirely", "different!")).toBeNull();
  });
});

describe("forms", () => {
  const schema: Schema = {
    type: "object",
    required: ["name", "count"],
    properties: {
      name: { type: "string", minLength: 2 },
      count: { type: "integer", minimum: 1 },
      ratio: { type: ["number", "null"] },
      sure: { type: "boolean", default: true },
      color: { enum: ["red", "blue"] },
      size: { oneOf: [{ const: 1, title: "small" }, { const: 2, title: "large" }] },
      some: { type: "array", items: { enum: ["a", "b"] } },
      tags: { type: "array", items: { type: "string" } },
      other: { type: "object" },
    },
  };
  const fields = formFields(schema);
  it("have a field for each property", () => {
    expect(fields.map((field) => field.kind)).toEqual(["text", "integer", "number", "boolean", "choice", "choice", "several", "list", "json"]);
    expect(fields[5]?.options.map((one) => one.label)).toEqual(["small", "large"]);
  });
  it("give the answer in the types of the schema", () => {
    const filled = { name: "Jo", count: "3", ratio: "", sure: true, color: "blue", size: 2, some: ["a"], tags: "x\n y \n", other: '{"k": 1}' };
    expect(formAnswer(schema, fields, filled)).toEqual({ answer: { name: "Jo", count: 3, sure: true, color: "blue", size: 2, some: ["a"], tags: ["x", "y"], other: { k: 1 } } });
  });
  it("report problems by field", () => {
    expect(formAnswer(schema, fields, { name: "J", count: "1.5", some: [], other: "{" })).toEqual({
      problems: { name: "at least 2 characters", count: "must be a whole number", other: "must be JSON" },
    });
  });
  it("may ask for a single value", () => {
    const single: Schema = { type: "array", items: { enum: ["a", "b"] } };
    expect(formAnswer(single, formFields(single), { "": ["b"] })).toEqual({ answer: ["b"] });
  });
});

describe("Markdown", () => {
  it("links only safe addresses", () => {
    expect(safeAddress("https://example.org")).toBe("https://example.org");
    for (const bad of ["javascript:alert(1)", "data:text/html,x", "//evil", "file:///etc", " JavaScript:x", "/api/v1/me"]) expect(safeAddress(bad)).toBeNull();
  });
  it("keeps HTML as text", () => {
    const [token] = parseMarkdown("<img src=x onerror=alert(1)>");
    expect(token?.type).toBe("html");
    expect(decodeEntities("a &amp; b &#x1F434; &unknown; &lt;")).toBe("a & b 🐴 &unknown; <");
  });
  it("is parsed at every length", () => {
    const text = "# T\n\n| a | b |\n|---|--:|\n| 1 | `x` |\n\n```py\ncode\n```\n1. a\n   - [x] b\n";
    for (let length = 0; length <= text.length; length += 1) expect(() => parseMarkdown(text.slice(0, length))).not.toThrow();
  });
});

describe("code", () => {
  it("is highlighted as spans, never as HTML", () => {
    const code = 'print("<b>&amp;</b>")\nx = 1\n';
    const lines = highlightLines(code, "python");
    expect(lines.map((line) => line.map((piece) => piece.text).join("")).join("\n")).toBe(code);
    expect(parseHighlighted('<span class="hljs-string">&lt;a&gt;</span>b')).toEqual([{ text: "<a>", classes: "hljs-string" }, { text: "b", classes: "" }]);
  });
});

describe("program output", () => {
  it("keeps colours and drops other escape sequences", () => {
    expect(parseAnsi("\x1b[1;32mok\x1b[0m \x1b[2Jx\x1b]0;title\x07y")).toEqual([{ text: "ok", classes: "ansi-green ansi-bold" }, { text: " xy", classes: "" }]);
    expect(plainText("10%\r50%\r100%\r\nnext\u202e")).toBe("100%\nnext");
  });
});

describe("formats", () => {
  it("are short", () => {
    expect([999, 1000, 1234, 12_345, 1_500_000].map(shortTokens)).toEqual(["999", "1k", "1.2k", "12k", "1.5M"]);
    expect([0, 0.0012, 1.5].map(dollars)).toEqual(["$0", "$0.0012", "$1.50"]);
    expect([12, 3000, 2500, 65_000, 3_700_000].map(duration)).toEqual(["12 ms", "3 s", "2.5 s", "1 min 5 s", "1 h 1 min"]);
    expect(relativeTime(0, 59_000)).toBe("now");
    expect(relativeTime(0, 7_200_000)).toBe("2 h");
  });
});

describe("commands", () => {
  const commands = [{ name: "review", description: "", kind: "template" }, { name: "deploy", description: "", kind: "command" }];
  it("are completed while their name is typed", () => {
    expect(matchingCommands("/re", commands).map((one) => one.name)).toEqual(["review", "rename", "tree"]);
    expect(matchingCommands("/review it", commands)).toEqual([]);
    expect(matchingCommands("re", commands)).toEqual([]);
  });
  it("complete mentioned files", () => {
    expect(mentionBefore("look at @src/a", 14)).toEqual({ start: 8, letters: "src/a" });
    expect(mentionBefore("me@home", 7)).toBeNull();
    expect(insertMention("look at @sr now", 8, 11, "@src/a.py")).toEqual({ text: "look at @src/a.py now", caret: 18 });
    expect(insertMention("@sr", 0, 3, "@src/")).toEqual({ text: "@src/", caret: 5 });
  });
  it("differ from text", () => {
    expect(parseCommand("/deploy to  prod\nnow", commands)).toMatchObject({ command: { name: "deploy" }, rest: "to  prod\nnow" });
    expect(parseCommand("/usr/bin is a folder", commands)).toBeNull();
  });
});

describe("branches", () => {
  it("are indented, and the path is marked", () => {
    const entry = (seq: number, parent: number, type = "user_message") => ({ seq, parent, type, text: `t${seq}` });
    const rows = treeRows([entry(1, 0), entry(2, 1, "assistant_message"), entry(3, 2), entry(4, 2), entry(5, 4, "tool_called")], 3);
    expect(rows.map((row) => [row.entry.seq, row.depth, row.isOnPath, row.isLeaf])).toEqual([
      [1, 0, true, false], [2, 0, true, false], [3, 1, true, true], [4, 1, false, false],
    ]);
    expect(rows[1]?.branches).toBe(2);
  });
});
