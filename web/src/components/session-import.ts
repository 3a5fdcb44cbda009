/** Imports a session from an exported file. */

import { api } from "../api/client";
import { attempt, overlay, toast } from "../state/app";
import { openSession } from "../state/route";
import { refreshList } from "../state/session-list";

async function importFile(file: File, cwd: string): Promise<void> {
  const dialog = overlay.value;
  const session = await attempt(() => api.importFile(file, cwd));
  if (!session) return;
  if (overlay.value === dialog) overlay.value = "";
  toast("Imported.");
  void refreshList();
  openSession(session.id);
}

/** Lets a person choose the file. The session gets this working directory, or the server's. */
export function importSession(cwd: string): void {
  const picker = document.createElement("input");
  picker.type = "file";
  picker.accept = ".jsonl,.ndjson";
  picker.hidden = true;
  picker.addEventListener("change", () => {
    const file = picker.files?.[0];
    picker.remove();
    if (file) void importFile(file, cwd);
  });
  picker.addEventListener("cancel", () => picker.remove());
  // In the document while it is open: browsers may garbage-collect a detached input and lose the choice.
  document.body.append(picker);
  picker.click();
}
