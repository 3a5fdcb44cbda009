/** Files dropped on the page. */

import type { JSX } from "preact";
import { canAct } from "../state/app";

/** The event handlers of an element that accepts files. */
export function fileDropProps(take: (files: FileList) => void): JSX.HTMLAttributes<HTMLElement> {
  const mark = (isOn: boolean): void => void document.body.classList.toggle("dropping", isOn);
  return {
    onDragOver: (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      mark(true);
    },
    onDragLeave: (event) => {
      if (!event.relatedTarget) mark(false);
    },
    onDrop: (event) => {
      const files = event.dataTransfer?.files;
      mark(false);
      if (!files?.length) return;
      event.preventDefault();
      if (canAct()) take(files);
    },
  };
}
