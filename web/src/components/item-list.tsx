/** The conversation. Only what is near the window is drawn: a long session costs what is seen of it. */

import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Block } from "../transcript/session-view";
import { timesSent } from "../state/prompt-draft";
import { wantedFact } from "../state/route";
import { BlockView } from "./item";
import { Icon } from "./icons";
import { memo } from "./memo";
import { watchWidth } from "./width";

const CHUNK = 24;
const NEAR = "1400px 0px";
/** What a block is taken to be high before it was seen. */
const GUESS = 64;

interface ChunkProperties {
  blocks: readonly Block[];
  session: string;
  place: number;
  isLast: boolean;
}

const sameChunk = (before: ChunkProperties, after: ChunkProperties): boolean =>
  before.isLast === after.isLast &&
  before.session === after.session &&
  before.blocks.length === after.blocks.length &&
  before.blocks.every((block, place) => block === after.blocks[place]);

const heights = new WeakMap<Element, number>();

const Chunk = memo(function Chunk({ blocks, session, place, isLast }: ChunkProperties) {
  const element = useRef<HTMLDivElement>(null);
  const [near, setNear] = useState(isLast);
  useEffect(() => {
    const one = element.current;
    if (!one) return undefined;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        if (!entry.isIntersecting && one.childElementCount) heights.set(one, one.offsetHeight);
        setNear(entry.isIntersecting);
      },
      { root: one.closest(".transcript"), rootMargin: NEAR },
    );
    observer.observe(one);
    return () => observer.disconnect();
  }, []);
  const drawn = near || isLast;
  const height = drawn ? undefined : ((element.current && heights.get(element.current)) ?? blocks.length * GUESS);
  return (
    <div ref={element} class="chunk" data-place={place} style={height ? { height: `${height}px` } : { height: "" }}>
      {drawn &&
        blocks.map((block) => (
          <div key={block.key} id={`b-${block.key}`} class={`block block-${block.kind}`} tabIndex={-1}>
            <BlockView block={block} session={session} />
          </div>
        ))}
    </div>
  );
}, sameChunk);

function chunksOf(blocks: readonly Block[]): Block[][] {
  const chunks: Block[][] = [];
  for (let at = 0; at < blocks.length; at += CHUNK) chunks.push(blocks.slice(at, at + CHUNK));
  return chunks;
}

interface Conversation {
  id: string;
  blocks: ReadonlySignal<readonly Block[]>;
  view: ReadonlySignal<{ caughtUp: boolean }>;
}

export function Transcript({ session, empty }: { session: Conversation; empty: ComponentChildren }): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const inside = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [isAway, setAway] = useState(false);
  const blocks = session.blocks.value;
  const { caughtUp } = session.view.value;
  const chunks = chunksOf(blocks);

  const toEnd = (): void => {
    const one = scroller.current;
    if (one) one.scrollTop = one.scrollHeight;
  };
  useLayoutEffect(() => {
    if (follows.current) toEnd();
  });
  useEffect(() => {
    const one = inside.current;
    const outer = scroller.current;
    if (!one || !outer) return undefined;
    const observer = new ResizeObserver(() => {
      if (follows.current) toEnd();
    });
    observer.observe(one);
    observer.observe(outer);
    const stop = watchWidth(one);
    return () => {
      observer.disconnect();
      stop();
    };
  }, []);
  const sent = timesSent.value;
  useEffect(() => {
    follows.current = true;
    toEnd();
  }, [sent]);
  const fact = wantedFact.value;
  useEffect(() => {
    if (!fact || !caughtUp) return;
    wantedFact.value = 0;
    follows.current = false;
    void scrollToFact(scroller.current, blocks, fact);
  }, [fact, caughtUp]);

  const lastTop = useRef(0);
  const scrolled = (): void => {
    const one = scroller.current;
    if (!one) return;
    const left = one.scrollHeight - one.scrollTop - one.clientHeight;
    // What was drawn above moves the end away; only a person moves up.
    if (left < 60) follows.current = true;
    else if (one.scrollTop < lastTop.current) follows.current = false;
    lastTop.current = one.scrollTop;
    setAway(left > 300);
  };
  const leave = (event: WheelEvent): void => {
    if (event.deltaY < 0) follows.current = false;
  };
  return (
    <div class="transcript-frame">
      <div class="transcript" ref={scroller} onScroll={scrolled} onWheel={leave} onTouchMove={() => { follows.current = false; }} role="log" aria-live="off" aria-label="Conversation" tabIndex={0}>
        <h2 class="visually-hidden">Conversation</h2>
        <div class="column" ref={inside}>
          {chunks.map((some, place) => (
            <Chunk key={place} blocks={some} session={session.id} place={place} isLast={place >= chunks.length - 2} />
          ))}
          {!caughtUp && !blocks.length && <p class="hint">Reading the session…</p>}
          {caughtUp && !blocks.length && <div class="empty">{empty}</div>}
        </div>
      </div>
      {isAway && (
        <button type="button" class="to-end" aria-label="To the latest" title="To the latest (End)" onClick={() => { follows.current = true; toEnd(); }}>
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}

/** Chunks on the way are drawn only when they come near, so it is looked for again until it stands still. */
async function scrollToFact(scroller: HTMLElement | null, blocks: readonly Block[], fact: number): Promise<void> {
  const place = blocks.findIndex((block) => "seq" in block && block.seq >= fact);
  const block = blocks[place];
  if (!scroller || !block) return;
  for (let tries = 0; tries < 12; tries += 1) {
    const element = document.getElementById(`b-${block.key}`);
    if (element) {
      element.scrollIntoView({ block: "center" });
      element.classList.add("found");
      if (tries > 2) return element.focus({ preventScroll: true });
    } else {
      scroller.querySelector(`[data-place="${Math.floor(place / CHUNK)}"]`)?.scrollIntoView({ block: "center" });
    }
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
}
