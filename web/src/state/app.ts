/** The state of the whole page: access, dialogs and panels, the theme, toasts. */

import { effect, signal } from "@preact/signals";
import { ApiError, api } from "../api/client";
import { forgetToken, keepToken, onOtherTab, token } from "../api/credentials";
import type { Me } from "../api/types";

export type Overlay = "" | "help" | "new" | "palette" | "model" | "fallback" | "rename" | "delete" | "usage";
export type Panel = "" | "todo" | "tree" | "context" | "permissions";
export type Theme = "auto" | "light" | "dark";

export const me = signal<Me | null>(null);
/** Why the login link did not work. */
export const loginLinkProblem = signal("");
export const access = signal<"loading" | "login" | "granted" | "offline">("loading");
export const overlay = signal<Overlay>("");
export const panel = signal<Panel>("");
export const drawerOpen = signal(false);
export const theme = signal<Theme>(stored("theme", "auto"));
/** Read out by screen readers. */
export const announcement = signal("");

export interface Toast {
  id: number;
  level: "info" | "warning" | "error";
  text: string;
}
export const toasts = signal<Toast[]>([]);
let toastCount = 0;

/** `stays`: until a person closes it. */
export function toast(text: string, level: Toast["level"] = "info", stays = false): void {
  const id = (toastCount += 1);
  toasts.value = [...toasts.value.slice(-3), { id, level, text }];
  if (!stays) setTimeout(() => dismiss(id), level === "error" ? 9000 : 4000);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Does something for a person; a toast reports a failure. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) access.value = "login";
    else toast(error instanceof Error ? error.message : String(error), "error");
    return undefined;
  }
}

export function stored<T extends string>(name: string, fallback: T): T {
  try {
    return (localStorage.getItem(`ostler.${name}`) as T | null) ?? fallback;
  } catch {
    return fallback; // storage may be blocked
  }
}

export function store(name: string, value: string): void {
  try {
    if (value) localStorage.setItem(`ostler.${name}`, value);
    else localStorage.removeItem(`ostler.${name}`);
  } catch {
    // The page works without storage.
  }
}

effect(() => {
  const root = document.documentElement;
  if (theme.value === "auto") delete root.dataset["theme"];
  else root.dataset["theme"] = theme.value;
  store("theme", theme.value === "auto" ? "" : theme.value);
});

export function nextTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order: Theme[] = dark ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? "auto";
}

export async function logIn(): Promise<void> {
  onOtherTab(() => void refresh());
  await logInByLink();
  await refresh();
}

/** Uses the code in the address and removes it from there. */
export async function logInByLink(): Promise<void> {
  const code = /[#&]token=([^&]+)/.exec(location.hash)?.[1];
  if (!code) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    await logInWith(decodeURIComponent(code), false);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 0) toast(error.message, "error");
    else loginLinkProblem.value = error.status === 401 ? "This link has expired or was used before." : error.message;
  }
}

/** Exchanges a token, or the code of a link, for a token of this page. */
export async function logInWith(secret: string, onlyThisTab: boolean): Promise<void> {
  const login = await api.login(secret);
  keepToken(login.token, onlyThisTab);
}

/** Revokes the token of this page, in all of its tabs. */
export async function logOut(): Promise<void> {
  await attempt(() => api.logout());
  forgetToken();
  await refresh();
}

export async function refresh(): Promise<void> {
  if (!token()) {
    me.value = null;
    access.value = "login";
    return;
  }
  try {
    me.value = await api.me();
    access.value = "granted";
  } catch (error) {
    const status = error instanceof ApiError ? error.status : 0;
    if (status === 401) forgetToken();
    access.value = status === 401 || status === 403 ? "login" : "offline";
    if (access.value === "offline") setTimeout(() => void refresh(), 2000);
  }
}

/** Whether the token may prompt. */
export function canAct(): boolean {
  return me.value === null || ["prompt", "all", "admin"].includes(me.value.scope);
}

/** Whether the token may answer questions. */
export function canAnswer(): boolean {
  return me.value === null || ["approve", "all", "admin"].includes(me.value.scope);
}

/** Permission profiles, from the strictest on. */
export const PROFILES = ["read-only", "ask", "edit", "full"];

/** The profiles that the token may choose. */
export function allowedProfiles(): string[] {
  return PROFILES.slice(0, PROFILES.indexOf(me.value?.max_permissions ?? "") + 1);
}
