/** What stands beside the conversation: the list of what is to be done, the branches, what the model is told, what it may do. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { panel } from "../state/app";
import type { OpenSession } from "../state/open-session";
import { ContextPanel } from "./context-panel";
import { Icon } from "./icons";
import { RulesPanel } from "./rules-panel";
import { TodoList } from "./todo-list";
import { TreePanel } from "./tree-panel";

const TITLES = { todo: "To do", tree: "Branches", context: "Context and cost", rules: "Permissions" };

function Frame({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  const element = useRef<HTMLElement>(null);
  useEffect(() => {
    element.current?.querySelector<HTMLElement>("h2")?.focus({ preventScroll: true });
  }, [title]);
  return (
    <aside class="panel" ref={element} aria-label={title}>
      <header>
        <h2 tabIndex={-1}>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={() => { panel.value = ""; }}>
          <Icon name="close" />
        </button>
      </header>
      <div class="panel-inside">{children}</div>
    </aside>
  );
}

export function SidePanel({ session }: { session: OpenSession }): JSX.Element | null {
  if (!panel.value) return null;
  return (
    <Frame title={TITLES[panel.value]}>
      {panel.value === "todo" && (session.view.value.todo.length ? <TodoList items={session.view.value.todo} /> : <p class="hint">Nothing to do.</p>)}
      {panel.value === "tree" && <TreePanel session={session} />}
      {panel.value === "context" && <ContextPanel session={session} />}
      {panel.value === "rules" && <RulesPanel session={session} />}
    </Frame>
  );
}
