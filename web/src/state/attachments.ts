/** Files on their way into a message. */

import { signal } from "@preact/signals";
import { api } from "../wire/api";
import type { PlainBlock, Upload } from "../wire/types";
import { toast } from "./app";

export interface Attachment {
  id: number;
  name: string;
  preview: string;
  upload: Upload | null;
  /** Of a prompt that was taken back: what stood in it. */
  block: PlainBlock | null;
  problem: string;
}

export const attachments = signal<Attachment[]>([]);
let count = 0;

function change(id: number, changes: Partial<Attachment>): void {
  attachments.value = attachments.value.map((one) => (one.id === id ? { ...one, ...changes } : one));
}

export function attach(files: Iterable<File>): void {
  for (const file of files) {
    const id = (count += 1);
    const preview = file.type.startsWith("image/") ? URL.createObjectURL(file) : "";
    attachments.value = [...attachments.value, { id, name: file.name || "pasted", preview, upload: null, block: null, problem: "" }];
    api.upload(file).then(
      (upload) => change(id, { upload }),
      (error: Error) => {
        change(id, { problem: error.message });
        toast(`${file.name}: ${error.message}`, "error");
      },
    );
  }
}

/** What was attached to a prompt that is written anew. */
export function attachAgain(parts: readonly { name: string; block: PlainBlock }[]): void {
  const again = parts.map(({ name, block }) => ({ id: (count += 1), name, preview: "", upload: null, block, problem: "" }));
  attachments.value = [...attachments.value, ...again];
}

export function detach(id: number): void {
  forget(attachments.value.filter((one) => one.id === id));
  attachments.value = attachments.value.filter((one) => one.id !== id);
}

/** Lets go of what their previews hold. */
export function forget(gone: readonly Attachment[]): void {
  for (const one of gone) if (one.preview) URL.revokeObjectURL(one.preview);
}

export const isUploading = (): boolean => attachments.value.some((one) => !one.upload && !one.block && !one.problem);

/** As blocks of a message: the server puts the bytes in the place of the address. */
export function attachedBlocks(): PlainBlock[] {
  return attachments.value.flatMap((one): PlainBlock[] => {
    if (one.block) return [one.block];
    if (!one.upload) return [];
    const { id, media_type, name } = one.upload;
    const url = `upload:${id}`;
    return media_type.startsWith("image/") ? [{ type: "image", media_type, url }] : [{ type: "file", media_type, name, url }];
  });
}
