/** The session that this tab showed last of each kernel: kept over a reload, so that a restart of the kernel before it hides nothing. */

const PREFIX = "cellwright:session:";

export type LastSession = {
  /** The kernel's process, by the log that it keeps. */
  readonly log: string;
  readonly session: string;
};

/** What is known of a kernel's last session; null where the tab has shown none, or keeps nothing. */
export function lastSession(kernel: string): LastSession | null {
  try {
    const kept = JSON.parse(sessionStorage.getItem(PREFIX + kernel) ?? "null") as Partial<LastSession> | null;
    return kept && typeof kept.log === "string" && typeof kept.session === "string" ? { log: kept.log, session: kept.session } : null;
  } catch {
    return null;
  }
}

export function keepLastSession(kernel: string, last: LastSession | null): void {
  try {
    if (last) sessionStorage.setItem(PREFIX + kernel, JSON.stringify(last));
    else sessionStorage.removeItem(PREFIX + kernel);
  } catch {
    // a browser that keeps nothing for this site: the start page offers the session
  }
}
