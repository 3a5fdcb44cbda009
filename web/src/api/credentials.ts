/** The token of this page, in the storage of its origin: no other port of the host gets it. */

/** The address that the page was served from: the built scripts are one folder below it. */
export const rootUrl = (): URL => (import.meta.env.DEV ? new URL("/", location.href) : new URL(/* @vite-ignore */ "../", import.meta.url));

/** Servers below other paths of the same origin have their own. */
const key = (): string => `ostler.token:${rootUrl().pathname}`;
/** Where storage is blocked: until the page is closed. */
let inMemory = "";

function read(storage: () => Storage): string {
  try {
    return storage().getItem(key()) ?? "";
  } catch {
    return "";
  }
}

/** A token for this tab only comes first. */
export function token(): string {
  return read(() => sessionStorage) || read(() => localStorage) || inMemory;
}

export function keepToken(token: string, onlyThisTab: boolean): void {
  forgetToken();
  try {
    (onlyThisTab ? sessionStorage : localStorage).setItem(key(), token);
  } catch {
    inMemory = token;
  }
}

export function forgetToken(): void {
  inMemory = "";
  for (const storage of [() => sessionStorage, () => localStorage]) {
    try {
      storage().removeItem(key());
    } catch {
      // Nothing is kept there.
    }
  }
}

/** Calls back when another tab logs in or out. */
export function onOtherTab(changed: () => void): void {
  addEventListener("storage", (event) => {
    if (event.key === key() || event.key === null) changed();
  });
}

/** `fetch` with the token, for addresses of this origin only. No cookie is enough. */
export function authorizedFetch(address: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const isOwn = new URL(address, location.href).origin === location.origin;
  if (isOwn && token()) headers.set("Authorization", `Bearer ${token()}`);
  if (isOwn && (init.method ?? "GET") !== "GET") headers.set("X-Ostler", "1");
  return fetch(address, { ...init, headers, credentials: isOwn ? "same-origin" : "omit" });
}
