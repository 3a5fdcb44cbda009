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

describe("the token of the page", () => {
  const kept = (): Storage => {
    const values = new Map<string, string>();
    return { getItem: (name: string) => values.get(name) ?? null, setItem: (name: string, value: string) => values.set(name, value), removeItem: (name: string) => values.delete(name) } as unknown as Storage;
  };

  it("is sent as a header to its own origin only", async () => {
    const { authorizedFetch, forgetToken, keepToken } = await import("../src/api/credentials");
    vi.stubGlobal("location", { href: "http://box.example/", origin: "http://box.example" });
    vi.stubGlobal("localStorage", kept());
    vi.stubGlobal("sessionStorage", kept());
    const sent: [string | null, string | null][] = [];
    vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
      const headers = new Headers(init.headers);
      sent.push([headers.get("Authorization"), headers.get("X-Ostler")]);
      return new Response("{}");
    });
    keepToken("ostler_login_a", false);
    await authorizedFetch("http://box.example/api/v1/me");
    await authorizedFetch("http://box.example/api/v1/logout", { method: "POST" });
    await authorizedFetch("http://box.example:8080/api/v1/me");
    await authorizedFetch("http://evil.example/", { method: "POST" });
    forgetToken();
    await authorizedFetch("http://box.example/api/v1/me");
    expect(sent).toEqual([["Bearer ostler_login_a", null], ["Bearer ostler_login_a", "1"], [null, null], [null, null], [null, null]]);
  });

  it("can stay in one tab", async () => {
    const { keepToken, token } = await import("../src/api/credentials");
    vi.stubGlobal("location", { href: "http://box.example/", origin: "http://box.example" });
    const [local, session] = [kept(), kept()];
    vi.stubGlobal("localStorage", local);
    vi.stubGlobal("sessionStorage", session);
    keepToken("everywhere", false);
    keepToken("here", true);
    expect(token()).toBe("here");
    expect(local.getItem("ostler.token:/")).toBeNull();
    expect(session.getItem("ostler.token:/")).toBe("here");
  });
});
