/** What is to be done, and how far it is. */

import type { JSX } from "preact";
import type { TodoItem } from "../api/types";
import { Icon } from "./icons";

const SAID = { open: "open", active: "under way", done: "done", dropped: "dropped" };

export function TodoList({ items }: { items: readonly TodoItem[] }): JSX.Element {
  return (
    <ul class="todo-list">
      {items.map((item) => {
        const status = item.status ?? "open";
        return (
          <li key={item.id} class={status}>
            <span class="mark" aria-hidden="true">
              {status === "done" ? <Icon name="check" size={13} /> : status === "dropped" ? <Icon name="cross" size={13} /> : null}
            </span>
            <span class="visually-hidden">{SAID[status]}: </span>
            <span>{item.text}</span>
          </li>
        );
      })}
    </ul>
  );
}
