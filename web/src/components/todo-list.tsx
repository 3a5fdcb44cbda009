/** A to-do list. */

import type { JSX } from "preact";
import type { TodoItem } from "../api/types";
import { Icon } from "./icons";

const STATUSES = { open: "open", active: "in progress", done: "done", dropped: "dropped" };

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
            <span class="visually-hidden">{STATUSES[status]}: </span>
            <span>{item.text}</span>
          </li>
        );
      })}
    </ul>
  );
}
