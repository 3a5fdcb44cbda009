/** A view on its way to the next one: each collection is copied once, before it is first changed. */

import type { Block, SessionView } from "./session-view";

type Writable<T> = { -readonly [K in keyof T]: T[K] };

export class Draft {
  readonly view: Writable<SessionView>;
  private readonly copied = new Set<string>();

  constructor(view: SessionView) {
    this.view = { ...view };
  }

  private own<T>(name: keyof SessionView, copy: () => T): T {
    if (!this.copied.has(name)) {
      this.copied.add(name);
      (this.view as Record<string, unknown>)[name] = copy();
    }
    return this.view[name] as T;
  }

  private blocks(): Block[] {
    return this.own("blocks", () => [...this.view.blocks]);
  }
  private places(): Map<string, number> {
    return this.own("places", () => new Map(this.view.places));
  }
  labels(): Map<number, string> {
    return this.own("labels", () => new Map(this.view.labels));
  }
  live(): Map<string, unknown> {
    return this.own("live", () => new Map(this.view.live));
  }
  settle(request: string | undefined): void {
    if (request) this.own("settled", () => new Set(this.view.settled)).add(request);
  }

  find<K extends Block["kind"]>(key: string, ...kinds: K[]): Extract<Block, { kind: K }> | undefined {
    const place = this.view.places.get(key);
    const block = place === undefined ? undefined : this.view.blocks[place];
    return block && (kinds as string[]).includes(block.kind) ? (block as Extract<Block, { kind: K }>) : undefined;
  }

  /** In the place of the one with the same key, or at the end. */
  put(block: Block): void {
    const blocks = this.blocks();
    const place = this.view.places.get(block.key);
    if (place !== undefined) {
      blocks[place] = block;
      return;
    }
    this.places().set(block.key, blocks.length);
    blocks.push(block);
  }

  /** Like `put`, for a block that stands for fragments of a message. */
  putUnsettled(message: string, block: Block): void {
    if (!this.view.places.has(block.key)) {
      const keys = this.view.unsettled.get(message) ?? [];
      this.own("unsettled", () => new Map(this.view.unsettled)).set(message, [...keys, block.key]);
    }
    this.put(block);
  }

  /** Of the fragments of a message, only the blocks with these keys stay. */
  settleMessage(message: string, kept: ReadonlySet<string>): void {
    const keys = this.view.unsettled.get(message);
    if (!keys) return;
    this.own("unsettled", () => new Map(this.view.unsettled)).delete(message);
    this.remove(new Set(keys.filter((key) => !kept.has(key))));
  }

  remove(keys: ReadonlySet<string>): void {
    if (![...keys].some((key) => this.view.places.has(key))) return;
    const kept = this.view.blocks.filter((block) => !keys.has(block.key));
    this.view.blocks = kept;
    this.view.places = new Map(kept.map((block, place) => [block.key, place]));
    this.copied.add("blocks").add("places");
  }

  change(matching: (block: Block) => boolean, changed: (block: Block) => Block): void {
    this.view.blocks.forEach((block, place) => {
      if (matching(block)) this.blocks()[place] = changed(block);
    });
  }

  /** An entry of the tree is the new leaf. */
  grow(seq: number, parent: number): void {
    this.own("parents", () => new Map(this.view.parents)).set(seq, parent);
    if (parent === this.view.leaf) this.own("path", () => new Set(this.view.path)).add(seq);
    else this.walk(seq);
    this.view.leaf = seq;
  }

  moveLeaf(to: number): void {
    this.walk(to);
    this.view.leaf = to;
  }

  private walk(from: number): void {
    const path = new Set<number>();
    for (let at: number | undefined = from; at && !path.has(at); at = this.view.parents.get(at)) path.add(at);
    this.view.path = path;
    this.copied.add("path");
  }
}
