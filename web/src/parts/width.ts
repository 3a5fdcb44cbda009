/** Whether the conversation has room for two columns. */

import { signal } from "@preact/signals";

export const isWide = signal(true);
export const isPhone = signal(false);

const WIDE = 820;
const phone = matchMedia("(max-width: 860px)");

export function watchWidth(element: HTMLElement): () => void {
  const observer = new ResizeObserver(([entry]) => {
    if (entry) isWide.value = entry.contentRect.width >= WIDE;
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
