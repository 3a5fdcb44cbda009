/** `KeyQueue` sends keys to a terminal in order, several in one request. */

/** Milliseconds in which keys are collected. */
const DELAY = 12;

export class KeyQueue {
  private pending = "";
  private isSending = false;

  constructor(
    private readonly post: (keys: string) => Promise<unknown>,
    private readonly failed: (error: unknown) => void,
  ) {}

  press(keys: string): void {
    this.pending += keys;
    if (!this.isSending) void this.send();
  }

  private async send(): Promise<void> {
    this.isSending = true;
    try {
      while (this.pending) {
        await new Promise((resolve) => setTimeout(resolve, DELAY));
        const keys = this.pending;
        this.pending = "";
        await this.post(keys);
      }
    } catch (error) {
      this.pending = ""; // keys typed after lost ones would mean something else
      this.failed(error);
    } finally {
      this.isSending = false;
    }
  }
}
