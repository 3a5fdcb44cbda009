/** Requests of extensions to the page: show another session, or put a text into the composer. */

import type { StreamEvent } from "../api/types";

export type UiRequest = { kind: "switch"; session: string } | { kind: "editor"; text: string };

/** Finds new requests in the events of a session: those before `caught_up` are old. */
export class UiRequests {
  private isCaughtUp = false;
  private readonly seen = new Map<string, number>();

  /** A new stream starts. */
  restart(): void {
    this.isCaughtUp = false;
  }

  take(events: readonly StreamEvent[]): UiRequest[] {
    return events.flatMap((event) => this.requestIn(event) ?? []);
  }

  private requestIn(event: StreamEvent): UiRequest | null {
    if (event.type === "caught_up") this.isCaughtUp = true;
    const name = event["name"] as string;
    const value = event["value"] as { number?: number; session?: string; text?: string } | null | undefined;
    if (event.type !== "live_value" || !value || (name !== "switch" && name !== "editor")) return null;
    const number = value.number ?? 0;
    const isNew = this.isCaughtUp && this.seen.get(name) !== number; // a stream that fell behind repeats values
    this.seen.set(name, number);
    if (!isNew) return null;
    return name === "switch" ? { kind: "switch", session: value.session ?? "" } : { kind: "editor", text: value.text ?? "" };
  }
}
