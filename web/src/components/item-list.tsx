/** The transcript. Only the items near the window are in the document, however long the session is. */

import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { promptsSent } from "../state/prompt-draft";
import { targetFact } from "../state/route";
import type { Item } from "../transcript/items";
import { Icon } from "./icons";
import { ItemView } from "./item";
import { memo } from "./memo";
import { watchWidth } from "./width";

const CHUNK = 24;
const NEAR = "1400px 0px";
/** The height of an item that was never rendered, in pixels. */
const ESTIMATED_HEIGHT = 64;

interface ChunkProperties {
  items: readonly Item[];
  session: string;
  index: number;
  isLast: boolean;
}

const sameChunk = (before: ChunkProperties, after: ChunkProperties): boolean =>
  before.isLast === after.isLast &&
  before.session === after.session &&
  before.items.length === after.items.length &&
  before.items.every((item, index) => item === after.items[index]);

const heights = new WeakMap<Element, number>();

const Chunk = memo(function Chunk({ items, session, index, isLast }: ChunkProperties) {
  const element = useRef<HTMLDivElement>(null);
  const [near, setNear] = useState(isLast);
  useEffect(() => {
    const node = element.current;
    if (!node) return undefined;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        if (!entry.isIntersecting && node.childElementCount) heights.set(node, node.offsetHeight);
        setNear(entry.isIntersecting);
      },
      { root: node.closest(".transcript"), rootMargin: NEAR },
    );
    observer.observe(node);
    return () => observer.disconnect();
  }, []);
  const isRendered = near || isLast;
  const height = isRendered ? undefined : ((element.current && heights.get(element.current)) ?? items.length * ESTIMATED_HEIGHT);
  return (
    <div ref={element} class="chunk" data-index={index} style={height ? { height: `${height}px` } : { height: "" }}>
      {isRendered &&
        items.map((item) => (
          <div key={item.key} id={`item-${item.key}`} class={`item item-${item.kind}`} tabIndex={-1}>
            <ItemView item={item} session={session} />
          </div>
        ))}
    </div>
  );
}, sameChunk);

function chunksOf(items: readonly Item[]): Item[][] {
  const chunks: Item[][] = [];
  for (let at = 0; at < items.length; at += CHUNK) chunks.push(items.slice(at, at + CHUNK));
  return chunks;
}

interface Conversation {
  id: string;
  items: ReadonlySignal<readonly Item[]>;
  view: ReadonlySignal<{ caughtUp: boolean }>;
}

export function ItemList({ session, empty }: { session: Conversation; empty: ComponentChildren }): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const inside = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isAway, setAway] = useState(false);
  const items = session.items.value;
  const { caughtUp } = session.view.value;
  const chunks = chunksOf(items);

  const toEnd = (): void => {
    const box = scroller.current;
    if (box) box.scrollTop = box.scrollHeight;
  };
  useLayoutEffect(() => {
    if (follows.current) toEnd();
  });
  useEffect(() => {
    const content = inside.current;
    const outer = scroller.current;
    if (!content || !outer) return undefined;
    const observer = new ResizeObserver(() => {
      if (follows.current) toEnd();
    });
    observer.observe(content);
    observer.observe(outer);
    const stop = watchWidth(content);
    return () => {
      observer.disconnect();
      stop();
    };
  }, []);
  const sent = promptsSent.value;
  useEffect(() => {
    follows.current = true;
    toEnd();
  }, [sent]);
  const fact = targetFact.value;
  useEffect(() => {
    if (!fact || !caughtUp) return;
    targetFact.value = 0;
    follows.current = false;
    void scrollToFact(scroller.current, items, fact);
  }, [fact, caughtUp]);

  const lastTop = useRef(0);
  const scrolled = (): void => {
    const box = scroller.current;
    if (!box) return;
    const distance = box.scrollHeight - box.scrollTop - box.clientHeight;
    // Items that are rendered above move the end away; only a person scrolls up.
    if (distance < 60) follows.current = true;
    else if (box.scrollTop < lastTop.current) follows.current = false;
    lastTop.current = box.scrollTop;
    setAway(distance > 300);
  };
  const leave = (event: WheelEvent): void => {
    if (event.deltaY < 0) follows.current = false;
  };
  return (
    <div class="transcript-frame">
      <div class="transcript" ref={scroller} onScroll={scrolled} onWheel={leave} onTouchMove={() => { follows.current = false; }} role="log" aria-live="off" aria-label="Conversation" tabIndex={0}>
        <h2 class="visually-hidden">Conversation</h2>
        <div class="column" ref={inside}>
          {chunks.map((chunk, index) => (
            <Chunk key={index} items={chunk} session={session.id} index={index} isLast={index >= chunks.length - 2} />
          ))}
          {!caughtUp && !items.length && <p class="hint">Loading the session…</p>}
          {caughtUp && !items.length && <div class="empty">{empty}</div>}
        </div>
      </div>
      {isAway && (
        <button type="button" class="to-end" aria-label="Scroll to the end" title="Scroll to the end (End)" onClick={() => { follows.current = true; toEnd(); }}>
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}

/** Scrolls several times: chunks are rendered, and change their height, only when they come near. */
async function scrollToFact(scroller: HTMLElement | null, items: readonly Item[], fact: number): Promise<void> {
  const index = items.findIndex((item) => item.seq >= fact);
  const item = items[index];
  if (!scroller || !item) return;
  for (let tries = 0; tries < 12; tries += 1) {
    const element = document.getElementById(`item-${item.key}`);
    if (element) {
      element.scrollIntoView({ block: "center" });
      element.classList.add("found");
      if (tries > 2) return element.focus({ preventScroll: true });
    } else {
      scroller.querySelector(`[data-index="${Math.floor(index / CHUNK)}"]`)?.scrollIntoView({ block: "center" });
    }
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
}
