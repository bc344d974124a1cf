/** Suggests code as ghost text: waits for a pause, asks the kernel of the notebook, and leaves an answer nobody waits for. */

import type { CompletionHandler, IInlineCompletionContext, IInlineCompletionList, IInlineCompletionProvider } from "@jupyterlab/completer";

import type { JsonObject } from "../json";
import type { RpcLink } from "../transport/rpc";
import { RequestError } from "../transport/rpc";

/** `delay`: milliseconds without a key before something is asked for. */
export type CompletionSettings = { readonly enabled: boolean; readonly delay: number };

/** The cursor's position, the cells around it, and the kernel that is asked. */
export type CompletionContext = CursorPosition & { readonly cells: JsonObject[]; readonly language: string; readonly link: RpcLink };

/** Longer than the kernel waits for the model. */
const REQUEST_TIMEOUT_MS = 10_000;
/** The pause after an error: each key would meet it again. */
export const PAUSE_MS = 60_000;
const INVOKED_BY_USER: unknown = 0;
/** Of these the user hears nothing: the kernel went away, or is an older one that completes nothing. */
const SILENT = new Set(["gone", "timeout", "unknown_method"]);
export const MEASURE = "cellwright:completion";

export class ClaudeCompletion implements IInlineCompletionProvider {
  readonly identifier = "cellwright:completion";
  readonly name = "Claude";
  /** JupyterLab's own settings of it: the delay is ours, so that a pause is waited for once. */
  readonly schema = { default: { enabled: true, autoFillInMiddle: true, debouncerDelay: 0, timeout: 15_000 } };
  private readonly suggestions = new SuggestionCache();
  private newest = 0;
  private requestedFrom: RpcLink | null = null;
  private pausedUntil = 0;
  private readonly reportedErrors = new Set<string>();

  /** `gapOf` gives the place of a request, null where there is nobody to ask; `tell` shows the user why nothing comes. */
  constructor(
    private readonly settings: () => CompletionSettings,
    private readonly contextOf: (request: CompletionHandler.IRequest, context: IInlineCompletionContext) => CompletionContext | null,
    private readonly tell: (message: string) => void,
    private readonly now: () => number = () => performance.now(),
  ) {}

  async fetch(request: CompletionHandler.IRequest, context: IInlineCompletionContext): Promise<IInlineCompletionList> {
    const text = await this.suggestion(request, context);
    // JupyterLab changes what it is given as the user types along
    return { items: text ? [{ insertText: text }] : [] };
  }

  /** Forget errors: the settings have changed. */
  reset(): void {
    this.newest++;
    this.pausedUntil = 0;
    this.reportedErrors.clear();
    this.stop();
  }

  private async suggestion(request: CompletionHandler.IRequest, context: IInlineCompletionContext): Promise<string> {
    const mine = ++this.newest;
    this.stop();
    const { enabled, delay } = this.settings();
    const invoked = context.triggerKind === INVOKED_BY_USER;
    const gap = enabled ? this.contextOf(request, context) : null;
    if (!gap) return "";
    const known = this.suggestions.find(gap);
    if (known !== undefined) return known;
    if (!invoked) {
      if (!gap.prefix.trim() || this.now() < this.pausedUntil) return "";
      await new Promise((resolve) => { setTimeout(resolve, delay); });
      if (mine !== this.newest) return "";
    }
    return this.ask(gap, mine);
  }

  private async ask(gap: CompletionContext, mine: number): Promise<string> {
    const { link, cells, language, prefix, suffix } = gap;
    this.requestedFrom = link;
    const start = this.now();
    try {
      const answer = await link.request("code", { prefix, suffix, cells, language }, REQUEST_TIMEOUT_MS);
      const { text, stopped } = answer as { text: string; stopped: boolean };
      // another page with this notebook may have stopped it: what is missing here is not known
      if (stopped || mine !== this.newest) return "";
      this.suggestions.put(gap, text);
      performance.measure(MEASURE, { start });
      return text;
    } catch (error) {
      if (mine === this.newest) this.failed(error);
      return "";
    } finally {
      if (mine === this.newest) this.requestedFrom = null;
    }
  }

  /** Ends the request that is on its way, down to its connection to the API: its tokens are of no use any more. */
  private stop(): void {
    const { requestedFrom: asked } = this;
    this.requestedFrom = null;
    asked?.request("code_stop", {}).catch(() => undefined); // it may have gone
  }

  private failed(error: unknown): void {
    this.pausedUntil = this.now() + PAUSE_MS;
    const { code, message } = error instanceof RequestError ? error : { code: "failed", message: String(error) };
    if (SILENT.has(code) || this.reportedErrors.has(code)) return;
    this.reportedErrors.add(code);
    this.tell(message);
  }
}

// Recent suggestions, so that typing along, and coming back to a position, makes no request.

/** A place in a cell: what stands before and behind the cursor. `cell` tells cells of all notebooks apart. */
export type CursorPosition = { readonly cell: string; readonly prefix: string; readonly suffix: string };

const MAX_SUGGESTIONS = 60;
/** Closing brackets and quotes that the editor may have put behind the cursor by itself. */
const AUTO_CLOSED = /^[)\]}"'`]{1,3}$/;

export class SuggestionCache {
  /** The newest last. */
  private known: { place: CursorPosition; text: string }[] = [];

  /** Keeps what was suggested at a place; an empty text says that nothing is missing there. */
  put(place: CursorPosition, text: string): void {
    this.known = [...this.known.filter((each) => !samePosition(each.place, place)), { place, text }].slice(-MAX_SUGGESTIONS);
  }

  /** The suggestion for a position without a request; undefined where it is not known. */
  find(place: CursorPosition): string | undefined {
    const same = this.known.find((each) => samePosition(each.place, place));
    if (same) return same.text;
    for (let at = this.known.length - 1; at >= 0; at--) {
      const each = this.known[at];
      const rest = each && remainder(each.text, each.place, place);
      if (rest) return rest;
    }
    return undefined;
  }
}

function samePosition(one: CursorPosition, other: CursorPosition): boolean {
  return one.cell === other.cell && one.prefix === other.prefix && one.suffix === other.suffix;
}

/** The rest of `text`, suggested at `was`, when the user has typed as far as `now`; undefined where they typed something else. */
function remainder(text: string, was: CursorPosition, now: CursorPosition): string | undefined {
  if (was.cell !== now.cell || !now.prefix.startsWith(was.prefix) || !now.suffix.endsWith(was.suffix)) return undefined;
  const typed = now.prefix.slice(was.prefix.length);
  if (typed === "" || !text.startsWith(typed)) return undefined;
  const rest = text.slice(typed.length);
  const closed = now.suffix.slice(0, now.suffix.length - was.suffix.length);
  if (closed === "") return rest;
  return AUTO_CLOSED.test(closed) && rest.endsWith(closed) ? rest.slice(0, -closed.length) : undefined;
}
