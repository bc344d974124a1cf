/**
 * The notebook follows an answer that grows, while its end is in sight: it scrolls with it, stops when the user scrolls up, and
 * goes on when they are at the end again.
 */

const AREA = ".jp-Cell-outputArea, .jp-OutputArea";
const SCROLLER = ".jp-WindowedPanel-outer, .jp-Notebook";
/** Below the answer's end, so that the line is not cut. */
const MARGIN_PX = 12;
/** Layout may leave the end of what is in sight a little below. */
const NEAR_PX = 4;

type Follower = { users: Set<() => boolean>; stop(): void };
const followers = new WeakMap<Element, Follower>();

/** Follows the end of the cell's output that `node` stands in, until `isOver`; gives how to end that. */
export function followEnd(node: HTMLElement, isOver: () => boolean): () => void {
  const area = node.closest<HTMLElement>(AREA);
  const scroller = area?.closest<HTMLElement>(SCROLLER);
  if (!area || !scroller || !("ResizeObserver" in globalThis)) return () => undefined;
  let follower = followers.get(area);
  if (!follower) {
    follower = follow(area, scroller, () => followers.delete(area));
    followers.set(area, follower);
  }
  const { users } = follower;
  users.add(isOver);
  return () => {
    users.delete(isOver);
    if (users.size === 0) follower.stop();
  };
}

function follow(area: HTMLElement, scroller: HTMLElement, ended: () => void): Follower {
  const users = new Set<() => boolean>();
  let top = scroller.scrollTop;
  /** How far the end is below what is in sight. */
  const below = (): number => area.getBoundingClientRect().bottom + MARGIN_PX - scroller.getBoundingClientRect().bottom;
  let following = below() <= MARGIN_PX + NEAR_PX;
  const scrolled = (): void => {
    const now = scroller.scrollTop;
    // upwards the user goes alone
    if (now < top - 1) following = false;
    else if (below() <= MARGIN_PX + NEAR_PX) following = true;
    top = now;
  };
  const grown = (): void => {
    // in a tab that is not in front there is nothing to follow
    if (scroller.clientHeight === 0 || area.offsetHeight === 0) return;
    const missing = below();
    if (following && missing > 0) {
      scroller.scrollTop += missing;
      top = scroller.scrollTop;
    }
    if ([...users].every((isOver) => isOver())) stop();
  };
  const sizes = new ResizeObserver(grown);
  const stop = (): void => {
    sizes.disconnect();
    scroller.removeEventListener("scroll", scrolled);
    ended();
  };
  sizes.observe(area);
  scroller.addEventListener("scroll", scrolled, { passive: true });
  return { users, stop };
}
