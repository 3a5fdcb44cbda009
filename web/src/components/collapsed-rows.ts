/** Collapses many empty rows of a terminal into one: some agents write only at both ends of a thousand. */

import type { Terminal } from "@xterm/xterm";

const MAX_EMPTY = 3;

type Point = { clientX: number; clientY: number };
type Locate = (event: Point, screen: HTMLElement, ...rest: unknown[]) => unknown;
type CreateSelection = (row: number, from: number, to: number, count?: number) => HTMLElement;

/** Internals of xterm.js that convert between rows and heights. A browser test notices when they move. */
interface Internals {
  _core: {
    _mouseService: { getCoords: Locate; getMouseReportCoords: Locate };
    _renderService: { _renderer: { value: { _createSelectionElement: CreateSelection } } };
  };
}

/** The visible rows among the first `used`: of many empty ones only the first. */
export function visibleRows(isEmpty: readonly boolean[], used: number, cursor: number): number[] {
  const visible: number[] = [];
  for (let row = 0, end = 0; row < used; row = end) {
    end = row + 1;
    const canCollapse = (other: number): boolean => other < used && other !== cursor && !!isEmpty[other];
    if (canCollapse(row)) while (canCollapse(end)) end += 1;
    const count = end - row > MAX_EMPTY ? 1 : end - row;
    for (let at = 0; at < count; at += 1) visible.push(row + at);
  }
  return visible;
}

export class CollapsedRows {
  private readonly isEmpty: boolean[] = [];
  private visible: number[] = [];
  private used = 0;

  constructor(
    private readonly terminal: Terminal,
    private readonly screen: HTMLElement,
  ) {
    const core = (terminal as unknown as Internals)._core;
    const mouse = core._mouseService;
    for (const name of ["getCoords", "getMouseReportCoords"] as const) {
      const locate = mouse[name].bind(mouse);
      mouse[name] = (event, element, ...rest) => locate(this.moved(event), element, ...rest);
    }
    const renderer = core._renderService._renderer.value;
    const createSelection = renderer._createSelectionElement.bind(renderer);
    renderer._createSelectionElement = (row, from, to, count = 1) => {
      const top = this.visibleBefore(row);
      return createSelection(top, from, to, this.visibleBefore(row + count) - top);
    };
  }

  get rowHeight(): number {
    return this.screen.offsetHeight / this.terminal.rows;
  }

  /** Reads rows that have changed. */
  read(start: number, end: number): void {
    const buffer = this.terminal.buffer.active;
    for (let row = start; row <= end; row += 1) this.isEmpty[row] = !buffer.getLine(buffer.viewportY + row)?.translateToString(true).trim();
  }

  /** Shows and hides rows so that they fit, and returns how many are visible. Rows below all text are never visible. */
  update(available: number): number {
    const { rows, buffer } = this.terminal;
    const cursor = buffer.active.cursorY;
    this.used = rows;
    while (this.used > cursor + 1 && this.isEmpty[this.used - 1]) this.used -= 1;
    this.visible = this.used > available ? visibleRows(this.isEmpty, this.used, cursor) : Array.from({ length: this.used }, (_, row) => row);
    const elements = this.screen.querySelector(".xterm-rows")?.children ?? [];
    for (let at = 0, row = 0; row < elements.length; row += 1) {
      const isVisible = row >= this.used || this.visible[at] === row;
      if (row < this.used && isVisible) at += 1;
      const element = elements[row] as HTMLElement;
      if (element.hidden === isVisible) element.hidden = !isVisible;
      element.classList.toggle("before-gap", row < this.used && isVisible && at < this.visible.length && this.visible[at] !== row + 1);
    }
    return this.visible.length;
  }

  private visibleBefore(row: number): number {
    const at = this.visible.findIndex((other) => other >= row);
    return at < 0 ? this.visible.length + Math.max(0, row - this.used) : at;
  }

  private moved(event: Point): Point {
    const { clientX, clientY } = event;
    const at = Math.floor((clientY - this.screen.getBoundingClientRect().top) / this.rowHeight);
    const row = this.visible[Math.max(0, at)] ?? at;
    return { clientX, clientY: clientY + (row - at) * this.rowHeight };
  }
}
