/** xterm.js writes style sheets and `style` attributes into the page, whose policy forbids both. The same can be
 * said through the CSSOM, which the policy allows. */

import type { Terminal } from "@xterm/xterm";

/** What xterm.js keeps to itself: the one place that writes attributes. A test of the page sees when it moves. */
interface Inside {
  _core: { _renderService: { _renderer: { value: { _rowFactory: { _addStyle(element: HTMLElement, style: string): void } } } } };
}

function adoptedSheet(create: (tag: string) => HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  const element = create("i");
  element.hidden = true;
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, "textContent", { set: (css: string) => sheet.replaceSync(css) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

/** All sheets of a terminal are made while it is opened. */
export function openStrictly(terminal: Terminal, parent: HTMLElement): void {
  const create = document.createElement.bind(document) as (tag: string) => HTMLElement;
  document.createElement = ((tag: string) => (tag === "style" ? adoptedSheet(create) : create(tag))) as typeof document.createElement;
  try {
    terminal.open(parent);
  } finally {
    delete (document as Partial<Document>).createElement; // the prototype's is seen again
  }
  (terminal as unknown as Inside)._core._renderService._renderer.value._rowFactory._addStyle = (element, style) => {
    element.style.cssText += style;
  };
}
