import { describe, expect, it } from "vitest";
import { terminalPieces } from "../src/text/ansi";
import { branchRows } from "../src/transcript/tree-rows";
import { commandIn, completions, mentionAt, withMention } from "../src/text/prompt";
import { counts, differingPart, editLines, readUnified, sideBySide } from "../src/text/diff";
import { answerOf, fieldsOf } from "../src/text/form-fields";
import { highlightedLines, piecesOf } from "../src/text/highlight";
import { blocksOf, decodeEntities, safeAddress } from "../src/text/markdown";
import { partialArguments, partialJson } from "../src/text/partial-json";
import { ago, dollars, elapsed, plainText, shortTokens } from "../src/text/format";
import type { Schema } from "../src/api/types";

describe("JSON that is still being written", () => {
  const whole = { path: "a.py", content: 'line "one"\n\tüñ 🐴 \\ end', edits: [{ old_text: "x", n: -1.5, yes: true }], none: null };
  it("is read at every length without an error, and what is whole never changes", () => {
    const json = JSON.stringify(whole);
    for (let length = 0; length <= json.length; length += 1) {
      const found = partialArguments(json.slice(0, length));
      if (found["path"] !== undefined) expect(whole.path.startsWith(found["path"] as string)).toBe(true);
      if (found["content"] !== undefined) expect(whole.content.startsWith(found["content"] as string)).toBe(true);
    }
    expect(partialJson(json)).toEqual(whole);
  });
  it("leaves out an escape that is cut, and half of a pair", () => {
    expect(partialJson('{"a": "x\\')).toEqual({ a: "x" });
    expect(partialJson('{"a": "x\\u00')).toEqual({ a: "x" });
    expect(partialJson('{"a": "x\\ud83d')).toEqual({ a: "x" });
    expect(partialJson('{"a": "x\\\\')).toEqual({ a: "x\\" });
  });
  it("does not read a name that is not whole", () => {
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
  const lines = readUnified("--- a\n+++ b\n@@ -3,3 +3,4 @@ def f():\n same\n-old\n+new\n+more\n same\n\\ No newline at end of file\n");
  it("has the numbers of its lines", () => {
    expect(lines.map((line) => [line.kind, line.before, line.after])).toEqual([
      ["gap", 0, 0], ["same", 3, 3], ["removed", 4, 0], ["added", 0, 4], ["added", 0, 5], ["same", 5, 6],
    ]);
    expect(counts(lines)).toEqual({ added: 2, removed: 1 });
  });
  it("stands side by side, with what was replaced beside what came for it", () => {
    const rows = sideBySide(lines).map(({ left, right }) => [left?.text ?? null, right?.text ?? null]);
    expect(rows).toEqual([["def f():", "def f():"], ["same", "same"], ["old", "new"], [null, "more"], ["same", "same"]]);
  });
  it("grows with the edits of a call", () => {
    expect(editLines([{ old_text: "a\nb" }], false).map((line) => line.kind)).toEqual(["same", "same"]);
    expect(editLines([{ old_text: "a\nb", new_text: "a\nc" }], true).map((line) => line.kind)).toEqual(["same", "removed", "added"]);
    expect(editLines("nonsense", true)).toEqual([]);
    expect(editLines([null, 3, {}], true)).toEqual([]);
  });
  it("knows which part of a line has changed", () => {
    expect(differingPart("most_common(10)", "most_common(20)")).toEqual([12, 13, 13]);
    expect(differingPart("entirely", "different!")).toBeNull();
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
  const fields = fieldsOf(schema);
  it("have a field of its kind for each property", () => {
    expect(fields.map((field) => field.kind)).toEqual(["text", "integer", "number", "boolean", "choice", "choice", "several", "list", "json"]);
    expect(fields[5]?.options.map((one) => one.label)).toEqual(["small", "large"]);
  });
  it("give the answer in the types of the schema", () => {
    const filled = { name: "Jo", count: "3", ratio: "", sure: true, color: "blue", size: 2, some: ["a"], tags: "x\n y \n", other: '{"k": 1}' };
    expect(answerOf(schema, fields, filled)).toEqual({ answer: { name: "Jo", count: 3, sure: true, color: "blue", size: 2, some: ["a"], tags: ["x", "y"], other: { k: 1 } } });
  });
  it("say what is wrong, field by field", () => {
    expect(answerOf(schema, fields, { name: "J", count: "1.5", some: [], other: "{" })).toEqual({
      problems: { name: "at least 2 characters", count: "must be a whole number", other: "must be JSON" },
    });
  });
  it("may ask for a single value", () => {
    const single: Schema = { type: "array", items: { enum: ["a", "b"] } };
    expect(answerOf(single, fieldsOf(single), { "": ["b"] })).toEqual({ answer: ["b"] });
  });
});

describe("Markdown", () => {
  it("lets only plain addresses be followed", () => {
    expect(safeAddress("https://example.org")).toBe("https://example.org");
    for (const bad of ["javascript:alert(1)", "data:text/html,x", "//evil", "file:///etc", " JavaScript:x", "/api/v1/me"]) expect(safeAddress(bad)).toBeNull();
  });
  it("keeps HTML as text of its own", () => {
    const [token] = blocksOf("<img src=x onerror=alert(1)>");
    expect(token?.type).toBe("html");
    expect(decodeEntities("a &amp; b &#x1F434; &unknown; &lt;")).toBe("a & b 🐴 &unknown; <");
  });
  it("holds with whatever is cut off in the middle", () => {
    const text = "# T\n\n| a | b |\n|---|--:|\n| 1 | `x` |\n\n```py\ncode\n```\n1. a\n   - [x] b\n";
    for (let length = 0; length <= text.length; length += 1) expect(() => blocksOf(text.slice(0, length))).not.toThrow();
  });
});

describe("code", () => {
  it("is read back from the highlighter as pieces, never as HTML", () => {
    const code = 'print("<b>&amp;</b>")\nx = 1\n';
    const lines = highlightedLines(code, "python");
    expect(lines.map((line) => line.map((piece) => piece.text).join("")).join("\n")).toBe(code);
    expect(piecesOf('<span class="hljs-string">&lt;a&gt;</span>b')).toEqual([{ text: "<a>", classes: "hljs-string" }, { text: "b", classes: "" }]);
  });
});

describe("what programs print", () => {
  it("has its colours, and nothing that moves a terminal", () => {
    expect(terminalPieces("\x1b[1;32mok\x1b[0m \x1b[2Jx\x1b]0;title\x07y")).toEqual([{ text: "ok", classes: "ansi-green ansi-bold" }, { text: " xy", classes: "" }]);
    expect(plainText("10%\r50%\r100%\r\nnext\u202e")).toBe("100%\nnext");
  });
});

describe("words", () => {
  it("are short", () => {
    expect([999, 1000, 1234, 12_345, 1_500_000].map(shortTokens)).toEqual(["999", "1k", "1.2k", "12k", "1.5M"]);
    expect([0, 0.0012, 1.5].map(dollars)).toEqual(["$0", "$0.0012", "$1.50"]);
    expect([12, 3000, 2500, 65_000, 3_700_000].map(elapsed)).toEqual(["12 ms", "3 s", "2.5 s", "1 min 5 s", "1 h 1 min"]);
    expect(ago(0, 59_000)).toBe("now");
    expect(ago(0, 7_200_000)).toBe("2 h");
  });
});

describe("commands", () => {
  const commands = [{ name: "review", description: "", kind: "template" }, { name: "deploy", description: "", kind: "command" }];
  it("are completed while their name is typed", () => {
    expect(completions("/re", commands).map((one) => one.name)).toEqual(["review", "rename", "tree"]);
    expect(completions("/review it", commands)).toEqual([]);
    expect(completions("re", commands)).toEqual([]);
  });
  it("and so are files that are mentioned", () => {
    expect(mentionAt("look at @src/a", 14)).toEqual({ start: 8, letters: "src/a" });
    expect(mentionAt("me@home", 7)).toBeNull();
    expect(withMention("look at @sr now", 8, 11, "@src/a.py")).toEqual({ text: "look at @src/a.py now", caret: 18 });
    expect(withMention("@sr", 0, 3, "@src/")).toEqual({ text: "@src/", caret: 5 });
  });
  it("are told apart from text", () => {
    expect(commandIn("/deploy to  prod\nnow", commands)).toMatchObject({ command: { name: "deploy" }, rest: "to  prod\nnow" });
    expect(commandIn("/usr/bin is a folder", commands)).toBeNull();
  });
});

describe("branches", () => {
  it("are indented where ways part, and the path is marked", () => {
    const entry = (seq: number, parent: number, type = "user_message") => ({ seq, parent, type, text: `t${seq}` });
    const rows = branchRows([entry(1, 0), entry(2, 1, "assistant_message"), entry(3, 2), entry(4, 2), entry(5, 4, "tool_called")], 3);
    expect(rows.map((row) => [row.entry.seq, row.depth, row.isOnPath, row.isLeaf])).toEqual([
      [1, 0, true, false], [2, 0, true, false], [3, 1, true, true], [4, 1, false, false],
    ]);
    expect(rows[1]?.ways).toBe(2);
  });
});
