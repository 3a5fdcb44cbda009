/** The actions of a message: copy, edit, go back, fork, label. */

import type { JSX } from "preact";
import { api } from "../api/client";
import type { PlainBlock } from "../api/types";
import { attempt, canAct, toast } from "../state/app";
import { attachBlocks } from "../state/attachments";
import { current, isDriven } from "../state/open-session";
import { composerText, focusComposer } from "../state/prompt-draft";
import { openSession } from "../state/route";
import { refreshList } from "../state/session-list";
import { promptAttachments, promptText } from "../text/prompt";
import { CopyButton } from "./code";
import { askForText } from "./dialog";
import { Icon } from "./icons";

export async function forkAt(entry: number): Promise<void> {
  const session = current.value;
  if (!session) return;
  const copy = await attempt(() => api.fork(session.id, entry));
  if (!copy) return;
  toast("This is the fork.");
  void refreshList();
  openSession(copy.id);
}

export async function navigateTo(entry: number): Promise<boolean> {
  const session = current.value;
  if (!session) return false;
  const isDone = await attempt(async () => {
    await api.navigate(session.id, entry);
    return true;
  });
  return Boolean(isDone);
}

export async function labelEntry(entry: number): Promise<void> {
  const session = current.value;
  if (!session) return;
  const before = session.view.value.labels.get(entry) ?? "";
  const label = await askForText("Label", before, "Leave empty to remove");
  if (label !== null) await attempt(() => api.label(session.id, entry, label.trim()));
}

/** Goes back to before a prompt and puts it into the composer. */
export async function editPrompt(entry: number, content: readonly PlainBlock[]): Promise<void> {
  const session = current.value;
  if (!session) return;
  const parent = session.view.value.parents.get(entry) ?? 0;
  if (!(await navigateTo(parent))) return;
  composerText.value = promptText(content);
  attachBlocks(promptAttachments(content));
  focusComposer();
}

export function MessageActions({ seq, text, prompt }: { seq: number; text: string; prompt?: readonly PlainBlock[] }): JSX.Element {
  const button = (label: string, icon: string, act: () => void): JSX.Element => (
    <button type="button" class="quiet small" aria-label={label} title={label} onClick={act}>
      <Icon name={icon} size={15} />
    </button>
  );
  const canBranch = canAct() && current.value !== null && !isDriven(current.value);
  return (
    <div class="actions" role="group" aria-label="Message">
      <CopyButton text={text} />
      {canBranch && prompt && button("Edit and resend", "edit", () => void editPrompt(seq, prompt))}
      {canBranch && !prompt && button("Go back here", "back", () => void navigateTo(seq))}
      {canBranch && button("Fork here", "fork", () => void forkAt(seq))}
      {canBranch && button("Label", "label", () => void labelEntry(seq))}
    </div>
  );
}
