/** Asks the person at this page for a line of text. */

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog";

interface Wanted {
  title: string;
  initial: string;
  hint: string;
  done: (text: string | null) => void;
}

const wanted = signal<Wanted | null>(null);

export function askFor(title: string, initial = "", hint = ""): Promise<string | null> {
  return new Promise((resolve) => {
    wanted.value = { title, initial, hint, done: resolve };
  });
}

function Asking({ title, initial, hint, done }: Wanted): JSX.Element {
  const [text, setText] = useState(initial);
  const end = (value: string | null): void => {
    wanted.value = null;
    done(value);
  };
  return (
    <Dialog title={title} onClose={() => end(null)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          end(text);
        }}
      >
        <input type="text" value={text} autofocus aria-label={title} placeholder={hint} onInput={(event) => setText(event.currentTarget.value)} />
        <div class="dialog-actions">
          <button type="button" onClick={() => end(null)}>
            Cancel
          </button>
          <button type="submit" class="primary">
            OK
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export function PromptDialog(): JSX.Element | null {
  return wanted.value && <Asking {...wanted.value} />;
}
