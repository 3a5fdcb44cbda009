/** Files of the server: fetched with the token of the page, then saved or shown from memory. */

import { attempt } from "./app";

/** Types that a browser shows as they are; it saves everything else. */
const SHOWN = new Set(["text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"]);
/** Milliseconds that a new tab or a download has to read the file. */
const KEPT = 60_000;

export function fileName(disposition: string): string {
  const encoded = /filename\*=UTF-8''([^;]+)/i.exec(disposition)?.[1];
  if (encoded) return decodeURIComponent(encoded);
  return /filename="([^"]*)"/i.exec(disposition)?.[1] ?? "file";
}

export async function objectUrl(response: Response): Promise<string> {
  return URL.createObjectURL(await response.blob());
}

function follow(address: string, attributes: { download?: string; target?: string }): void {
  const link = Object.assign(document.createElement("a"), { href: address, rel: "noopener", ...attributes });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT);
}

export function save(fetched: () => Promise<Response>): void {
  void attempt(async () => {
    const response = await fetched();
    const download = fileName(response.headers.get("Content-Disposition") ?? "");
    follow(await objectUrl(response), { download });
  });
}

/** Opens a text or a picture in a new tab, and saves any other file. */
export function show(fetched: () => Promise<Response>): void {
  void attempt(async () => {
    const response = await fetched();
    const type = (response.headers.get("Content-Type") ?? "").split(";")[0]?.trim() ?? "";
    const isShown = SHOWN.has(type) && !/^attachment/i.test(response.headers.get("Content-Disposition") ?? "");
    const download = fileName(response.headers.get("Content-Disposition") ?? "");
    follow(await objectUrl(response), isShown ? { target: "_blank" } : { download });
  });
}
