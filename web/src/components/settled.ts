/** A question is not answered by a key or a click that was meant for something else. */

import { useEffect, useRef } from "preact/hooks";

/** Milliseconds that a question is shown before anything answers it. */
export const QUIET = 600;

/** Returns a function: whether the question has been seen for long enough. It starts again when the question changes or the tab becomes visible. */
export function useSettled(question: string, isReady: boolean, onSettled: () => void): () => boolean {
  const since = useRef(Number.POSITIVE_INFINITY);
  const isSettled = (): boolean => performance.now() - since.current >= QUIET;
  useEffect(() => {
    since.current = Number.POSITIVE_INFINITY;
    if (!isReady) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const start = (): void => {
      clearTimeout(timer);
      since.current = document.hidden ? Number.POSITIVE_INFINITY : performance.now();
      if (!document.hidden) timer = setTimeout(onSettled, QUIET);
    };
    start();
    document.addEventListener("visibilitychange", start);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", start);
    };
  }, [question, isReady]);
  return isSettled;
}
