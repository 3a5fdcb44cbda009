/** Closes the stream of a hidden page: browsers allow few connections to a server, for all tabs together. */

import type { EventStream } from "../api/event-stream";

/** Milliseconds. */
const PAUSE_AFTER = 60_000;

/** Starts the stream; the returned function closes it. */
export function openVisibleStream(stream: EventStream): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const reconnect = (): void => stream.retryNow();
  const updateVisibility = (): void => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => stream.pause(), PAUSE_AFTER);
      return;
    }
    stream.start();
    stream.retryNow();
  };
  stream.start();
  document.addEventListener("visibilitychange", updateVisibility);
  addEventListener("online", reconnect);
  return () => {
    stream.close();
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", updateVisibility);
    removeEventListener("online", reconnect);
  };
}
