/** What is said in passing. */

import type { JSX } from "preact";
import { dismiss, toasts } from "../state/app";
import { Icon } from "./icons";

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status">
      {toasts.value.map((one) => (
        <div key={one.id} class={`toast ${one.level}`}>
          <span>{one.text}</span>
          <button type="button" class="quiet small" aria-label="Dismiss" onClick={() => dismiss(one.id)}>
            <Icon name="close" size={14} />
          </button>
        </div>
      ))}
    </div>
  );
}
