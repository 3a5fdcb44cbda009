/** What extensions wish of the page: to show another session, or a text in the line. */

import type { Frame } from "../api/types";

export type Wish = { kind: "switch"; session: string } | { kind: "editor"; text: string };

/** Of the frames of one session, the wishes that are new: what is told before `caught_up` was wished before. */
export class Wishes {
  private isCaughtUp = false;
  private readonly seen = new Map<string, number>();

  /** Another stream begins. */
  begin(): void {
    this.isCaughtUp = false;
  }

  take(frames: readonly Frame[]): Wish[] {
    return frames.flatMap((frame) => this.wishIn(frame) ?? []);
  }

  private wishIn(frame: Frame): Wish | null {
    if (frame.type === "caught_up") this.isCaughtUp = true;
    const name = frame["name"] as string;
    const value = frame["value"] as { number?: number; session?: string; text?: string } | null | undefined;
    if (frame.type !== "live_value" || !value || (name !== "switch" && name !== "editor")) return null;
    const number = value.number ?? 0;
    const isNew = this.isCaughtUp && this.seen.get(name) !== number; // a stream that fell behind tells it again
    this.seen.set(name, number);
    if (!isNew) return null;
    return name === "switch" ? { kind: "switch", session: value.session ?? "" } : { kind: "editor", text: value.text ?? "" };
  }
}
