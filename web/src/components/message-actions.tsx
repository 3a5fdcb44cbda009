/** What can be done with a message: copy it, fork there, go back there, name it. */

import type { JSX } from "preact";
import { attachedParts, typedText } from "../text/parts-of-prompt";
import { api } from "../api/client";
import type { PlainBlock } from "../api/types";
import { attempt, mayAct, toast } from "../state/app";
import { attachAgain } from "../state/attachments";
import { composerText, focusComposer } from "../state/prompt-draft";
import { current, isDriven } from "../state/open-session";
import { goTo } from "../state/route";
import { refreshList } from "../state/session-list";
import { CopyButton } from "./code";
import { Icon } from "./icons";
import { askFor } from "./prompt-dialog";

export async function forkAt(entry: number): Promise<void> {
  const session = current.value;
  if (!session) return;
  const made = await attempt(() => api.fork(session.id, entry));
  if (!made) return;
  toast("Forked: this is the copy.");
  void refreshList();
  goTo(made.id);
}

export async function goBackTo(entry: number): Promise<boolean> {
  const session = current.value;
  if (!session) return false;
  const done = await attempt(async () => {
    await api.navigate(session.id, entry);
    return true;
  });
  return Boolean(done);
}

export async function labelEntry(entry: number): Promise<void> {
  const session = current.value;
  if (!session) return;
  const before = session.view.value.labels.get(entry) ?? "";
  const label = await askFor("A name for this place", before, "Empty removes it");
  if (label !== null) await attempt(() => api.label(session.id, entry, label.trim()));
}

/** Goes back to before a prompt, with what stood in it to be changed. */
export async function editPrompt(entry: number, content: readonly PlainBlock[]): Promise<void> {
  const session = current.value;
  if (!session) return;
  const parent = session.view.value.parents.get(entry) ?? 0;
  if (!(await goBackTo(parent))) return;
  composerText.value = typedText(content);
  attachAgain(attachedParts(content));
  focusComposer();
}

export function MessageActions({ seq, text, prompt }: { seq: number; text: string; prompt?: readonly PlainBlock[] }): JSX.Element {
  const button = (label: string, icon: string, act: () => void): JSX.Element => (
    <button type="button" class="quiet small" aria-label={label} title={label} onClick={act}>
      <Icon name={icon} size={15} />
    </button>
  );
  const mayBranch = mayAct() && current.value !== null && !isDriven(current.value);
  return (
    <div class="actions" role="group" aria-label="Message">
      <CopyButton text={text} />
      {mayBranch && prompt && button("Go back and change it", "edit", () => void editPrompt(seq, prompt))}
      {mayBranch && !prompt && button("Go back to here", "back", () => void goBackTo(seq))}
      {mayBranch && button("Fork here", "fork", () => void forkAt(seq))}
      {mayBranch && button("Name this place", "label", () => void labelEntry(seq))}
    </div>
  );
}
