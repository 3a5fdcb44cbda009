import { afterEach, describe, expect, it, vi } from "vitest";

vi.stubGlobal("location", { href: "http://box.example/" });
const { send } = await import("../src/api/client");

afterEach(() => vi.unstubAllGlobals());

describe("requests to the server", () => {
  it("have an idempotency key, also over plain HTTP from another machine", async () => {
    const keys: (string | null)[] = [];
    const { getRandomValues } = crypto;
    vi.stubGlobal("crypto", { getRandomValues: getRandomValues.bind(crypto) });
    vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
      keys.push(new Headers(init.headers).get("Idempotency-Key"));
      return new Response("{}");
    });
    await send("sessions", { method: "POST" });
    await send("sessions", { method: "POST" });
    await send("sessions");
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(new Set(keys).size).toBe(3);
    expect(keys[2]).toBeNull();
  });
});
