/** Dialogs and toasts. The browser keeps the focus in an open dialog and restores it afterwards. */

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { dismiss, toasts } from "../state/app";
import { Icon } from "./icons";

interface Properties {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
  bare?: boolean;
}

export function Dialog({ title, onClose, children, wide = false, bare = false }: Properties): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={`dialog${wide ? " wide" : ""}${bare ? " bare" : ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-inside">
        <header class={bare ? "visually-hidden" : undefined}>
          <h2 id={id}>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

interface TextPrompt {
  title: string;
  initial: string;
  hint: string;
  done: (text: string | null) => void;
}

const textPrompt = signal<TextPrompt | null>(null);

/** Asks the person for a line of text; null if they cancel. */
export function askForText(title: string, initial = "", hint = ""): Promise<string | null> {
  return new Promise((resolve) => {
    textPrompt.value = { title, initial, hint, done: resolve };
  });
}

function TextPromptDialog({ title, initial, hint, done }: TextPrompt): JSX.Element {
  const [text, setText] = useState(initial);
  const end = (value: string | null): void => {
    textPrompt.value = null;
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
  return textPrompt.value && <TextPromptDialog {...textPrompt.value} />;
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status">
      {toasts.value.map(({ id, level, text }) => (
        <div key={id} class={`toast ${level}`}>
          <span>{text}</span>
          <button type="button" class="quiet small" aria-label="Dismiss" onClick={() => dismiss(id)}>
            <Icon name="close" size={14} />
          </button>
        </div>
      ))}
    </div>
  );
}
