/** The runs, the newest at the bottom, which is kept in sight while text streams in; of a command's page its beginning is. Runs out of sight are laid out by the browser when they come near. */

import { button, element } from "../../transcript/dom";
import type { RunTranscript } from "../../transport/chat";
import type { Run } from "../../transport/chat_protocol";
import type { RunDeps } from "./run_view";
import type { Branches } from "./branch_switch";
import { RunView } from "./run_view";

/** Closer to the end than this is at the end. */
const AT_END_PX = 48;
/** Between a question and the edge of what is seen. */
const CARD_MARGIN_PX = 8;
/** The distance out of sight within which a run is drawn before others. */
const NEAR_MARGIN = "900px 0px";

export class RunList {
  readonly node: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly list = element("ol", { class: "runs" });
  private readonly newest: HTMLButtonElement;
  private readonly views = new Map<string, RunView>();
  private readonly idleDrawing = new IdleDrawing(() => this.views.values());
  private readonly stop: (() => void)[] = [];
  private nearby: IntersectionObserver | null = null;
  private atEnd = true;
  private lastTop = 0;

  /** `before` is what stands above the runs, or instead of them. */
  constructor(before: HTMLElement, private readonly deps: RunDeps) {
    const { trans } = deps;
    this.newest = button(trans.__("Jump to newest"), () => { this.toEnd(); }, { class: "newest", hidden: "" });
    this.scroller = element("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": trans.__("Conversation") }, before, this.list);
    this.node = element("div", { class: "conversation" }, this.scroller, this.newest);
    this.scroller.addEventListener("scroll", () => { this.scrolled(); }, { passive: true });
    this.watch(before);
  }

  /** Shows these runs. */
  update(runs: readonly RunTranscript[]): void {
    const ids = new Set(runs.map(({ run }) => run.id));
    for (const [id, view] of this.views) {
      if (ids.has(id)) continue;
      this.nearby?.unobserve(view.node);
      this.idleDrawing.forget(view);
      view.dispose();
      this.views.delete(id);
    }
    runs.forEach((shown, at) => { this.put(shown, at); });
    this.list.hidden = runs.length === 0;
  }

  /** Shows the branches of `session` at its prompts. */
  showBranches(runs: readonly RunTranscript[], session: string, branches: Branches): void {
    for (const { run } of runs) {
      const sessions = run.session === session && run.turn !== null && run.kind !== "command" ? branches[run.turn] : undefined;
      this.views.get(run.id)?.showBranches(sessions ? { sessions, current: session } : null);
    }
  }

  /** Gives the focus to the branches at a run's prompt. */
  focusBranches(id: string): void {
    const view = this.views.get(id);
    view?.node.scrollIntoView({ block: "nearest" });
    view?.focusBranches();
  }

  /** Scrolls to a run and gives it the focus. */
  show(id: string): void {
    const node = this.views.get(id)?.node;
    node?.scrollIntoView({ block: "start" });
    node?.focus({ preventScroll: true });
  }

  /** Scrolls to the newest words and stays there. */
  toEnd(): void {
    this.atEnd = true;
    this.newest.hidden = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  dispose(): void {
    this.idleDrawing.dispose();
    for (const view of this.views.values()) view.dispose();
    for (const stop of this.stop) stop();
  }

  private put(shown: RunTranscript, at: number): void {
    let view = this.views.get(shown.run.id);
    if (view) view.update(shown);
    else {
      view = new RunView(shown, this.deps);
      this.views.set(shown.run.id, view);
      if (this.nearby) this.nearby.observe(view.node);
      // what goes on is looked at, wherever it stands
      if (!this.nearby || !isPast(shown.run)) view.draw();
    }
    if (this.list.children[at] !== view.node) this.list.insertBefore(view.node, this.list.children[at] ?? null);
  }

  private watch(before: HTMLElement): void {
    if (!("IntersectionObserver" in globalThis)) return;
    const nearby = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const view = this.views.get((target as HTMLElement).dataset.run ?? "");
        if (view) this.idleDrawing.setNear(view, isIntersecting);
      }
    }, { root: this.scroller, rootMargin: NEAR_MARGIN });
    this.nearby = nearby;
    // in the frame in which something has grown, after its layout: nothing is measured that was not measured anyway
    const sizes = new ResizeObserver(() => { this.grown(); });
    for (const node of [before, this.list, this.scroller]) sizes.observe(node);
    this.stop.push(() => { nearby.disconnect(); }, () => { sizes.disconnect(); });
  }

  private grown(): void {
    if (!this.atEnd) {
      this.newest.hidden = this.isAtEnd() || this.showsQuestion();
      return;
    }
    const { scroller } = this;
    const card = askingCard(this.list);
    const page = card ? null : commandPage(this.list);
    if (card) scroller.scrollTop = scrollTopFor(card.getBoundingClientRect(), scroller);
    // who has read on is not taken back
    else if (page) scroller.scrollTop = Math.max(scroller.scrollTop, scrollTopFor(page.getBoundingClientRect(), scroller));
    else scroller.scrollTop = scroller.scrollHeight;
    // as far as it went: who scrolls back here is not the user
    if (card ?? page) this.lastTop = scroller.scrollTop;
  }

  private scrolled(): void {
    const { scrollTop } = this.scroller;
    // growth alone moves the end away, and not the user
    if (this.isAtEnd()) this.atEnd = true;
    else if (scrollTop < this.lastTop) this.atEnd = false;
    this.lastTop = scrollTop;
    this.newest.hidden = this.atEnd || this.showsQuestion();
  }

  /** True while any of a question is in sight: nothing newer is worth covering it. */
  private showsQuestion(): boolean {
    const card = askingCard(this.list)?.getBoundingClientRect();
    const { top: above, bottom: below } = this.scroller.getBoundingClientRect();
    return card !== undefined && card.bottom > above && card.top < below;
  }

  private isAtEnd(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < AT_END_PX;
  }
}

/** The question that is asked in one of the answers in `list`. */
function askingCard(list: HTMLElement): HTMLElement | null {
  const roots = [...list.querySelectorAll(".answer")].map(({ shadowRoot }) => shadowRoot);
  const body = roots.map((root) => root?.querySelector(".ask:not(.aside) > .ask-body:not([hidden])") ?? null).find((found) => found !== null);
  return body?.parentElement ?? null;
}

/** The newest run if it is a command: its page is there at once, and is read from its beginning. */
function commandPage(list: HTMLElement): HTMLElement | null {
  const last = list.lastElementChild as HTMLElement | null;
  return last?.dataset.kind === "command" ? last : null;
}

/** How far `scroller` is scrolled for a question or a page: as far as needed to see its end, and never past its beginning. */
function scrollTopFor({ top, bottom }: DOMRect, scroller: HTMLElement): number {
  const { scrollTop, clientHeight } = scroller;
  const origin = scroller.getBoundingClientRect().top - scrollTop;
  const [begin, end] = [top - origin - CARD_MARGIN_PX, bottom - origin + CARD_MARGIN_PX];
  return begin < scrollTop ? Math.max(0, begin) : Math.max(scrollTop, Math.min(begin, end - clientHeight));
}

/** True for a run that has ended. */
function isPast({ state }: Run): boolean {
  return ["done", "failed", "interrupted"].includes(state);
}

// Draws runs when the page has time for it: what is near to what is seen first, then the rest, the newest first.

/** A page that is never at rest draws one run in this time. */
const IDLE_TIMEOUT_MS = 100;
/** The idle time that suffices to draw one more run. */
const MIN_IDLE_MS = 8;

type Deadline = { timeRemaining(): number };

export type DrawableRun = { readonly drawn: boolean; draw(): void };

export class IdleDrawing<Run extends DrawableRun> {
  private readonly near = new Set<Run>();
  private cancel: (() => void) | null = null;

  /** `runs` are all there are, the newest last. */
  constructor(private readonly runs: () => Iterable<Run>) {}

  /** Mark `run` as in sight, or nearly so. */
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
    } while (run && deadline.timeRemaining() > MIN_IDLE_MS);
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
    const idle = requestIdleCallback(work, { timeout: IDLE_TIMEOUT_MS });
    return () => { cancelIdleCallback(idle); };
  }
  const timer = setTimeout(work, 0, { timeRemaining: () => 0 });
  return () => { clearTimeout(timer); };
}
