/** Many empty rows of a terminal are shown as one: some agents write at both ends of a thousand. */

import type { Terminal } from "@xterm/xterm";

const MOST_EMPTY = 3;

type Point = { clientX: number; clientY: number };
type Located = (event: Point, screen: HTMLElement, ...rest: unknown[]) => unknown;
type Marked = (row: number, from: number, to: number, count?: number) => HTMLElement;

/** What xterm.js keeps to itself: where it takes a row for a height. A test of the page sees when it moves. */
interface Inside {
  _core: {
    _mouseService: { getCoords: Located; getMouseReportCoords: Located };
    _renderService: { _renderer: { value: { _createSelectionElement: Marked } } };
  };
}

/** The rows that are shown, of those up to `used`; of many empty ones the first. */
export function shownRows(isEmpty: readonly boolean[], used: number, cursor: number): number[] {
  const shown: number[] = [];
  for (let row = 0, end = 0; row < used; row = end) {
    end = row + 1;
    const canBeLeftOut = (one: number): boolean => one < used && one !== cursor && !!isEmpty[one];
    if (canBeLeftOut(row)) while (canBeLeftOut(end)) end += 1;
    const count = end - row > MOST_EMPTY ? 1 : end - row;
    for (let at = 0; at < count; at += 1) shown.push(row + at);
  }
  return shown;
}

export class LeftOutRows {
  private readonly isEmpty: boolean[] = [];
  private shown: number[] = [];
  private used = 0;

  constructor(
    private readonly terminal: Terminal,
    private readonly screen: HTMLElement,
  ) {
    const core = (terminal as unknown as Inside)._core;
    const mouse = core._mouseService;
    for (const name of ["getCoords", "getMouseReportCoords"] as const) {
      const located = mouse[name].bind(mouse);
      mouse[name] = (event, element, ...rest) => located(this.moved(event), element, ...rest);
    }
    const renderer = core._renderService._renderer.value;
    const marked = renderer._createSelectionElement.bind(renderer);
    renderer._createSelectionElement = (row, from, to, count = 1) => {
      const top = this.shownBefore(row);
      return marked(top, from, to, this.shownBefore(row + count) - top);
    };
  }

  get rowHeight(): number {
    return this.screen.offsetHeight / this.terminal.rows;
  }

  /** These have changed. */
  see(start: number, end: number): void {
    const buffer = this.terminal.buffer.active;
    for (let row = start; row <= end; row += 1) this.isEmpty[row] = !buffer.getLine(buffer.viewportY + row)?.translateToString(true).trim();
  }

  /** How many rows are shown, if there is room for so many. Those below all that is written never are. */
  show(room: number): number {
    const { rows, buffer } = this.terminal;
    const cursor = buffer.active.cursorY;
    this.used = rows;
    while (this.used > cursor + 1 && this.isEmpty[this.used - 1]) this.used -= 1;
    this.shown = this.used > room ? shownRows(this.isEmpty, this.used, cursor) : Array.from({ length: this.used }, (_, row) => row);
    const elements = this.screen.querySelector(".xterm-rows")?.children ?? [];
    for (let at = 0, row = 0; row < elements.length; row += 1) {
      const isShown = row >= this.used || this.shown[at] === row;
      if (row < this.used && isShown) at += 1;
      const element = elements[row] as HTMLElement;
      if (element.hidden === isShown) element.hidden = !isShown;
      element.classList.toggle("before-gap", row < this.used && isShown && at < this.shown.length && this.shown[at] !== row + 1);
    }
    return this.shown.length;
  }

  private shownBefore(row: number): number {
    const at = this.shown.findIndex((one) => one >= row);
    return at < 0 ? this.shown.length + Math.max(0, row - this.used) : at;
  }

  private moved(event: Point): Point {
    const { clientX, clientY } = event;
    const at = Math.floor((clientY - this.screen.getBoundingClientRect().top) / this.rowHeight);
    const row = this.shown[Math.max(0, at)] ?? at;
    return { clientX, clientY: clientY + (row - at) * this.rowHeight };
  }
}
