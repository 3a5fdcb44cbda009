import { describe, expect, it } from "vitest";
import { terminalPieces } from "../src/text/ansi";
import { themeProperties } from "../src/text/theme-colors";
import { Wishes } from "../src/state/ui-requests";
import type { Frame } from "../src/api/types";

const caughtUp: Frame = { type: "caught_up", seq: 3 };
const wish = (name: string, value: Record<string, unknown>): Frame => ({ type: "live_value", name, value });

describe("wishes of extensions", () => {
  it("count behind caught_up only", () => {
    const wishes = new Wishes();
    wishes.begin();
    expect(wishes.take([wish("switch", { session: "ses_2", number: 1 }), caughtUp])).toEqual([]);
    expect(wishes.take([wish("switch", { session: "ses_3", number: 2 }), wish("editor", { text: "dear", number: 3 })])).toEqual([
      { kind: "switch", session: "ses_3" },
      { kind: "editor", text: "dear" },
    ]);
  });

  it("are fulfilled once, however often a stream tells of them", () => {
    const wishes = new Wishes();
    wishes.begin();
    const told = wish("editor", { text: "dear", number: 1 });
    expect(wishes.take([caughtUp, told])).toHaveLength(1);
    expect(wishes.take([told, caughtUp])).toEqual([]);
    wishes.begin();
    expect(wishes.take([told, caughtUp])).toEqual([]);
    expect(wishes.take([wish("editor", { text: "dear", number: 2 })])).toHaveLength(1);
  });

  it("that came while the page rested are not fulfilled late", () => {
    const wishes = new Wishes();
    wishes.begin();
    wishes.take([caughtUp]);
    wishes.begin();
    expect(wishes.take([wish("switch", { session: "ses_2", number: 1 }), caughtUp])).toEqual([]);
  });

  it("are not what other live values are, nor their end", () => {
    const wishes = new Wishes();
    wishes.begin();
    expect(wishes.take([caughtUp, wish("widget:a/b", { text: "x" }), { type: "live_value", name: "editor", value: null }])).toEqual([]);
  });
});

describe("colours of terminals", () => {
  it("have names where the page has one, and are their own where not", () => {
    expect(terminalPieces("\x1b[91mred\x1b[38;5;208morange\x1b[38;2;1;2;3;48;2;255;0;16mown\x1b[39;49m.")).toEqual([
      { text: "red", classes: "ansi-red" },
      { text: "orange", classes: "", style: { color: "#ff8700" } },
      { text: "own", classes: "", style: { color: "#010203", backgroundColor: "#ff0010" } },
      { text: ".", classes: "" },
    ]);
  });

  it("come with the other ways to write, and end with them", () => {
    expect(terminalPieces("\x1b[3;4;44mx\x1b[23;24my\x1b[mz").map((one) => one.classes)).toEqual(["ansi-on-blue ansi-italic ansi-underlined", "ansi-on-blue", ""]);
  });

  it("cannot bring anything but colours", () => {
    expect(terminalPieces("\x1b[38;2;999;;1m<b>x")).toEqual([{ text: "<b>x", classes: "", style: { color: "#ff0001" } }]);
    expect(terminalPieces("\x1b[38;5;999my")[0]?.style).toEqual({ color: "#ffffff" });
  });
});

describe("a theme of an extension", () => {
  it("colours the page where it knows light and dark, with colours and nothing else", () => {
    const colors = { text: { light: "#112233", dark: "fff" }, error: { light: "#f00", dark: "" }, primary: { light: "url(x)", dark: "#123456" } };
    expect([...themeProperties({ colors })]).toEqual([["--ink", "light-dark(#112233, #fff)"]]);
    expect(themeProperties(undefined).size).toBe(0);
  });
});
