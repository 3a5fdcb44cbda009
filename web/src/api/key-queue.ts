/** Keys on their way to a terminal: those of a moment go together, and none overtakes another. */

const TOGETHER = 12;

export class KeyPresses {
  private waiting = "";
  private isSending = false;

  constructor(
    private readonly post: (keys: string) => Promise<unknown>,
    private readonly failed: (error: unknown) => void,
  ) {}

  press(keys: string): void {
    this.waiting += keys;
    if (!this.isSending) void this.send();
  }

  private async send(): Promise<void> {
    this.isSending = true;
    try {
      while (this.waiting) {
        await new Promise((resolve) => setTimeout(resolve, TOGETHER));
        const keys = this.waiting;
        this.waiting = "";
        await this.post(keys);
      }
    } catch (error) {
      this.waiting = ""; // what was typed after keys that were lost means something else now
      this.failed(error);
    } finally {
      this.isSending = false;
    }
  }
}
