/** Files on their way into a message, for each session; those that have arrived outlive the page, as its text does. */

import { computed, effect, signal } from "@preact/signals";
import { api } from "../api/client";
import type { PlainBlock, Upload } from "../api/types";
import { store, stored, toast } from "./app";
import { sessionId } from "./route";

export interface Attachment {
  id: number;
  session: string;
  name: string;
  preview: string;
  /** To be sent again, as long as it has not arrived. */
  file: File | null;
  upload: Upload | null;
  /** Of a prompt that was taken back: what stood in it. */
  block: PlainBlock | null;
  problem: string;
}

type Kept = Pick<Attachment, "name" | "upload" | "block">;

const bySession = signal<ReadonlyMap<string, readonly Attachment[]>>(new Map());
let count = 0;

/** Those of the session that is looked at. */
export const attachments = computed(() => bySession.value.get(sessionId.value) ?? []);

effect(() => {
  const session = sessionId.value;
  if (!bySession.peek().has(session)) bySession.value = new Map(bySession.peek()).set(session, attachedTo(session));
});

export function attachedTo(session: string): readonly Attachment[] {
  const known = bySession.peek().get(session);
  return known ?? (JSON.parse(stored(`attached.${session}`, "[]")) as Kept[]).map((one) => made(session, one));
}

function revise(session: string, revised: (files: readonly Attachment[]) => readonly Attachment[]): void {
  const files = revised(attachedTo(session));
  bySession.value = new Map(bySession.value).set(session, files);
  const kept = files.flatMap(({ name, upload, block }): Kept[] => (upload || block ? [{ name, upload, block }] : []));
  store(`attached.${session}`, kept.length ? JSON.stringify(kept) : "");
}

function made(session: string, fields: Partial<Attachment>): Attachment {
  return { id: (count += 1), session, name: "", preview: "", file: null, upload: null, block: null, problem: "", ...fields };
}

function change({ id, session }: Attachment, changes: Partial<Attachment>): void {
  revise(session, (files) => files.map((one) => (one.id === id ? { ...one, ...changes } : one)));
}

export function attach(files: Iterable<File>): void {
  for (const file of files) {
    const preview = file.type.startsWith("image/") ? URL.createObjectURL(file) : "";
    const one = made(sessionId.value, { name: file.name || "pasted", preview, file });
    putBack([one]);
    upload(one);
  }
}

/** Sends the file; also again. */
export function upload(one: Attachment): void {
  if (!one.file) return;
  change(one, { problem: "" });
  api.upload(one.file).then(
    (arrived) => change(one, { upload: arrived, file: null }),
    (error: Error) => {
      change(one, { problem: error.message });
      toast(`${one.name}: ${error.message}`, "error");
    },
  );
}

/** What was attached to a prompt that is written anew. */
export function attachAgain(parts: readonly { name: string; block: PlainBlock }[]): void {
  putBack(parts.map((part) => made(sessionId.value, part)));
}

/** Out of their message; they may be put back. */
export function takeOut(taken: readonly Attachment[]): void {
  const ids = new Set(taken.map((one) => one.id));
  for (const session of new Set(taken.map((one) => one.session))) revise(session, (files) => files.filter((one) => !ids.has(one.id)));
}

export function putBack(taken: readonly Attachment[]): void {
  for (const session of new Set(taken.map((one) => one.session))) {
    revise(session, (files) => [...files, ...taken.filter((one) => one.session === session)]);
  }
}

export function detach(one: Attachment): void {
  forget([one]);
  takeOut([one]);
}

/** Lets go of what their previews hold. */
export function forget(gone: readonly Attachment[]): void {
  for (const one of gone) if (one.preview) URL.revokeObjectURL(one.preview);
}

export const isOnItsWay = (one: Attachment): boolean => !one.upload && !one.block && !one.problem;

/** Why a message with them cannot be sent now; empty when it can. */
export function hindranceOf(files: readonly Attachment[]): string {
  const failed = files.find((one) => one.problem);
  if (failed) return `Nothing was sent: ${failed.name} did not arrive. Try it again or remove it. ${failed.problem}`;
  return files.some(isOnItsWay) ? "A file is still on its way." : "";
}

/** As blocks of a message: the server puts the bytes in the place of the address. */
export function blocksOf(files: readonly Attachment[]): PlainBlock[] {
  return files.flatMap((one): PlainBlock[] => {
    if (one.block) return [one.block];
    if (!one.upload) return [];
    const { id, media_type, name } = one.upload;
    const url = `upload:${id}`;
    return media_type.startsWith("image/") ? [{ type: "image", media_type, url }] : [{ type: "file", media_type, name, url }];
  });
}
