/** The files attached to the next prompt of each session. Uploaded ones survive a reload, as the draft does. */

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
  /** For another attempt, until the upload is done. */
  file: File | null;
  upload: Upload | null;
  /** A block of a prompt that was withdrawn. */
  block: PlainBlock | null;
  problem: string;
}

type StoredAttachment = Pick<Attachment, "name" | "upload" | "block">;

const bySession = signal<ReadonlyMap<string, readonly Attachment[]>>(new Map());
let count = 0;

/** Those of the current session. */
export const attachments = computed(() => bySession.value.get(sessionId.value) ?? []);

effect(() => {
  const session = sessionId.value;
  if (!bySession.peek().has(session)) bySession.value = new Map(bySession.peek()).set(session, attachmentsOf(session));
});

export function attachmentsOf(session: string): readonly Attachment[] {
  const loaded = bySession.peek().get(session);
  return loaded ?? (JSON.parse(stored(`attached.${session}`, "[]")) as StoredAttachment[]).map((fields) => newAttachment(session, fields));
}

function update(session: string, change: (files: readonly Attachment[]) => readonly Attachment[]): void {
  const files = change(attachmentsOf(session));
  bySession.value = new Map(bySession.value).set(session, files);
  const uploaded = files.flatMap(({ name, upload, block }): StoredAttachment[] => (upload || block ? [{ name, upload, block }] : []));
  store(`attached.${session}`, uploaded.length ? JSON.stringify(uploaded) : "");
}

function newAttachment(session: string, fields: Partial<Attachment>): Attachment {
  return { id: (count += 1), session, name: "", preview: "", file: null, upload: null, block: null, problem: "", ...fields };
}

function change({ id, session }: Attachment, changes: Partial<Attachment>): void {
  update(session, (files) => files.map((file) => (file.id === id ? { ...file, ...changes } : file)));
}

export function attach(files: Iterable<File>): void {
  for (const file of files) {
    const preview = file.type.startsWith("image/") ? URL.createObjectURL(file) : "";
    const attachment = newAttachment(sessionId.value, { name: file.name || "pasted", preview, file });
    restoreAttachments([attachment]);
    upload(attachment);
  }
}

/** Uploads the file, or tries again. */
export function upload(attachment: Attachment): void {
  if (!attachment.file) return;
  change(attachment, { problem: "" });
  api.upload(attachment.file).then(
    (uploaded) => change(attachment, { upload: uploaded, file: null }),
    (error: Error) => {
      change(attachment, { problem: error.message });
      toast(`${attachment.name}: ${error.message}`, "error");
    },
  );
}

/** Attaches the blocks of a prompt that is edited. */
export function attachBlocks(parts: readonly { name: string; block: PlainBlock }[]): void {
  restoreAttachments(parts.map((part) => newAttachment(sessionId.value, part)));
}

/** Removes them from the prompt; `restoreAttachments` undoes it. */
export function removeAttachments(files: readonly Attachment[]): void {
  const ids = new Set(files.map((file) => file.id));
  for (const session of new Set(files.map((file) => file.session))) update(session, (others) => others.filter((file) => !ids.has(file.id)));
}

export function restoreAttachments(files: readonly Attachment[]): void {
  for (const session of new Set(files.map((file) => file.session))) {
    update(session, (others) => [...others, ...files.filter((file) => file.session === session)]);
  }
}

export function detach(attachment: Attachment): void {
  releasePreviews([attachment]);
  removeAttachments([attachment]);
}

export function releasePreviews(files: readonly Attachment[]): void {
  for (const { preview } of files) if (preview) URL.revokeObjectURL(preview);
}

export const isUploading = ({ upload, block, problem }: Attachment): boolean => !upload && !block && !problem;

/** Why a prompt with these files cannot be sent now; empty if it can. */
export function attachmentProblem(files: readonly Attachment[]): string {
  const failed = files.find((file) => file.problem);
  if (failed) return `Not sent: the upload of ${failed.name} failed. Try again or remove it. ${failed.problem}`;
  return files.some(isUploading) ? "A file is still being uploaded." : "";
}

/** The blocks of a prompt: the server replaces the addresses by the bytes. */
export function attachmentBlocks(files: readonly Attachment[]): PlainBlock[] {
  return files.flatMap(({ block, upload }): PlainBlock[] => {
    if (block) return [block];
    if (!upload) return [];
    const { id, media_type, name } = upload;
    const url = `upload:${id}`;
    return media_type.startsWith("image/") ? [{ type: "image", media_type, url }] : [{ type: "file", media_type, name, url }];
  });
}
