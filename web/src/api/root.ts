/** Where the page was served from: the built scripts lie one folder below it. */

export const ROOT = import.meta.env.DEV ? new URL("/", location.href) : new URL(/* @vite-ignore */ "../", import.meta.url);
