/** Work that may wait, in small portions: a few milliseconds of each frame, whatever there is to do. */

const MS_PER_FRAME = 5;
/** Between two portions while the page is hidden and has no frames. */
const HIDDEN_MS = 200;

/** Works until `until` (by `performance.now()`) at most; true when it is done. */
export type Job = (until: number) => boolean;

const waiting = new Set<Job>();
let left = MS_PER_FRAME;
let due = false;

/** Does `job` now where this frame has time for it, so that it is seen with what is drawn; else, or the rest of it, in later frames. */
export function work(job: Job): void {
  if (waiting.has(job)) return;
  if (waiting.size > 0 || left <= 0 || !portion(job)) waiting.add(job);
  request();
}

/** `job` is wanted no longer. */
export function cancelWork(job: Job): void {
  waiting.delete(job);
}

function portion(job: Job): boolean {
  const from = performance.now();
  const done = job(from + left);
  left -= performance.now() - from;
  return done;
}

function request(): void {
  if (due) return;
  due = true;
  if (document.hidden) setTimeout(inFrame, HIDDEN_MS);
  else requestAnimationFrame(inFrame);
}

function inFrame(): void {
  due = false;
  left = MS_PER_FRAME;
  for (const job of waiting) {
    if (left <= 0) break;
    if (portion(job)) waiting.delete(job);
  }
  if (waiting.size > 0) request();
}
