/** Draws runs when the page has time for it: what is near to what is seen first, then the rest, the newest first. */

/** A page that is never at rest draws one run in this time. */
const AT_MOST_MS = 100;
/** So much of the page's rest is left is enough for one more. */
const ENOUGH_MS = 8;

type Deadline = { timeRemaining(): number };

export type Drawable = { readonly drawn: boolean; draw(): void };

export class DrawAhead<Run extends Drawable> {
  private readonly near = new Set<Run>();
  private cancel: (() => void) | null = null;

  /** `runs` are all there are, the newest last. */
  constructor(private readonly runs: () => Iterable<Run>) {}

  /** Whether `run` is in sight, or may soon be. */
  setNear(run: Run, near: boolean): void {
    if (near) this.near.add(run);
    else this.near.delete(run);
    this.request();
  }

  /** There may be something to draw. */
  request(): void {
    this.cancel ??= whenIdle((deadline) => {
      this.cancel = null;
      this.drawSome(deadline);
    });
  }

  forget(run: Run): void {
    this.near.delete(run);
  }

  dispose(): void {
    this.cancel?.();
    this.near.clear();
  }

  private drawSome(deadline: Deadline): void {
    let run = this.next();
    do {
      run?.draw();
      run = this.next();
    } while (run && deadline.timeRemaining() > ENOUGH_MS);
    if (run) this.request();
  }

  private next(): Run | undefined {
    const left = (runs: Iterable<Run>): Run | undefined => [...runs].findLast((run) => !run.drawn);
    return left(this.near) ?? left(this.runs());
  }
}

/** Calls `work` when the page rests; gives how to call it off. Safari does not say when it rests. */
function whenIdle(work: (deadline: Deadline) => void): () => void {
  if ("requestIdleCallback" in globalThis) {
    const idle = requestIdleCallback(work, { timeout: AT_MOST_MS });
    return () => { cancelIdleCallback(idle); };
  }
  const timer = setTimeout(work, 0, { timeRemaining: () => 0 });
  return () => { clearTimeout(timer); };
}
