/** The width of the transcript. */

import { signal } from "@preact/signals";

export const isWide = signal(true);
export const isPhone = signal(false);
/** Columns of terminal text that fit; in steps, since extensions render for this width. */
export const columns = signal(80);

/** Pixels. */
const LETTER = 8;
const STEP = 4;

const WIDE = 820;
const phone = matchMedia("(max-width: 860px)");

export function watchWidth(element: HTMLElement): () => void {
  const observer = new ResizeObserver(([entry]) => {
    if (entry) {
      const { width } = entry.contentRect;
      isWide.value = width >= WIDE;
      columns.value = Math.max(20, Math.floor((width - 40) / LETTER / STEP) * STEP);
    }
    const scroller = element.parentElement;
    if (scroller) document.documentElement.style.setProperty("--bar", `${scroller.offsetWidth - scroller.clientWidth}px`);
  });
  observer.observe(element);
  return () => observer.disconnect();
}

isPhone.value = phone.matches;
phone.addEventListener("change", () => {
  isPhone.value = phone.matches;
});
