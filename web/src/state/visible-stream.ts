/** A page that is hidden for long holds no connection: browsers allow a server few, for all tabs together. */

import type { Follower } from "../api/event-stream";

const HIDDEN_REST = 60_000;

/** Starts it; the function that is returned ends it. */
export function followWhileSeen(follower: Follower): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const hurry = (): void => follower.hurry();
  const look = (): void => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => follower.rest(), HIDDEN_REST);
      return;
    }
    follower.start();
    follower.hurry();
  };
  follower.start();
  document.addEventListener("visibilitychange", look);
  addEventListener("online", hurry);
  return () => {
    follower.close();
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
    removeEventListener("online", hurry);
  };
}
