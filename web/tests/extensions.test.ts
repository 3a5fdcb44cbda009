import { describe, expect, it } from "vitest";
import type { StreamEvent } from "../src/api/types";
import { UiRequests } from "../src/state/ui-requests";
import { parseAnsi } from "../src/text/ansi";
import { themeProperties } from "../src/text/theme-colors";

const caughtUp: StreamEvent = { type: "caught_up", seq: 3 };
const liveValue = (name: string, value: Record<string, unknown>): StreamEvent => ({ type: "live_value", name, value });

describe("requests of extensions to the page", () => {
  it("are handled only after caught_up", () => {
    const requests = new UiRequests();
    requests.restart();
    expect(requests.take([liveValue("switch", { session: "ses_2", number: 1 }), caughtUp])).toEqual([]);
    expect(requests.take([liveValue("switch", { session: "ses_3", number: 2 }), liveValue("editor", { text: "dear", number: 3 })])).toEqual([
      { kind: "switch", session: "ses_3" },
      { kind: "editor", text: "dear" },
    ]);
  });

  it("are handled once, even if a stream repeats them", () => {
    const requests = new UiRequests();
    requests.restart();
    const told = liveValue("editor", { text: "dear", number: 1 });
    expect(requests.take([caughtUp, told])).toHaveLength(1);
    expect(requests.take([told, caughtUp])).toEqual([]);
    requests.restart();
    expect(requests.take([told, caughtUp])).toEqual([]);
    expect(requests.take([liveValue("editor", { text: "dear", number: 2 })])).toHaveLength(1);
  });

  it("that came while the page was hidden are not handled", () => {
    const requests = new UiRequests();
    requests.restart();
    requests.take([caughtUp]);
    requests.restart();
    expect(requests.take([liveValue("switch", { session: "ses_2", number: 1 }), caughtUp])).toEqual([]);
  });

  it("are no other live values", () => {
    const requests = new UiRequests();
    requests.restart();
    expect(requests.take([caughtUp, liveValue("widget:a/b", { text: "x" }), { type: "live_value", name: "editor", value: null }])).toEqual([]);
  });
});

describe("ANSI colours", () => {
  it("become classes or styles", () => {
    expect(parseAnsi("\x1b[91mred\x1b[38;5;208morange\x1b[38;2;1;2;3;48;2;255;0;16mown\x1b[39;49m.")).toEqual([
      { text: "red", classes: "ansi-red" },
      { text: "orange", classes: "", style: { color: "#ff8700" } },
      { text: "own", classes: "", style: { color: "#010203", backgroundColor: "#ff0010" } },
      { text: ".", classes: "" },
    ]);
  });

  it("combine with text attributes", () => {
    expect(parseAnsi("\x1b[3;4;44mx\x1b[23;24my\x1b[mz").map((one) => one.classes)).toEqual(["ansi-on-blue ansi-italic ansi-underline", "ansi-on-blue", ""]);
  });

  it("are only colours", () => {
    expect(parseAnsi("\x1b[38;2;999;;1m<b>x")).toEqual([{ text: "<b>x", classes: "", style: { color: "#ff0001" } }]);
    expect(parseAnsi("\x1b[38;5;999my")[0]?.style).toEqual({ color: "#ffffff" });
  });
});

describe("a theme of an extension", () => {
  it("sets colours that have a light and a dark variant", () => {
    const colors = { text: { light: "#112233", dark: "fff" }, error: { light: "#f00", dark: "" }, primary: { light: "url(x)", dark: "#123456" } };
    expect([...themeProperties({ colors })]).toEqual([["--ink", "light-dark(#112233, #fff)"]]);
    expect(themeProperties(undefined).size).toBe(0);
  });
});
