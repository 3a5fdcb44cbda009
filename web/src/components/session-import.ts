/** Adds the session of an exported file. */

import { attempt, overlay, toast } from "../state/app";
import { goTo } from "../state/route";
import { refreshList } from "../state/session-list";
import { api } from "../api/client";

async function importFile(file: File, cwd: string): Promise<void> {
  const asked = overlay.value;
  const made = await attempt(() => api.importFile(file, cwd));
  if (!made) return;
  if (overlay.value === asked) overlay.value = "";
  toast("Imported.");
  void refreshList();
  goTo(made.id);
}

/** Lets a person choose the file; the session then works in that folder, or the server's. */
export function chooseAndImport(cwd: string): void {
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
  // In the page while it is open: a browser may collect one that stands nowhere, and the choice with it.
  document.body.append(picker);
  picker.click();
}
