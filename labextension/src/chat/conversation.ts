/** One kernel's conversation as this page holds it: messages in, state and runs out. */

import { TranscriptStore } from "../transcript/store";
import type { ShownRun } from "../transport/chat";
import type { AgainMessage, ChatState, KernelMessage, Run, RunOpsMessage } from "../transport/chat_protocol";

/** What the kernel did not send within this time is asked for again. */
const ASK_AGAIN_MS = 2_000;

export class Conversation {
  state: ChatState | null = null;
  runs: readonly ShownRun[] = [];
  private log = "";
  private readonly asked = new Map<string, { have: number; at: number }>();

  /** What the kernel has to know of what is here, to send the rest. */
  held(): { log: string; have: Record<string, number> } {
    return { log: this.log, have: Object.fromEntries(this.runs.map(({ run, transcript }) => [run.id, transcript.have])) };
  }

  /** Takes a message; `again` is called where operations before it are missing. Whether what is above has changed. */
  take(message: KernelMessage, again: (message: AgainMessage) => void): boolean {
    switch (message.type) {
      case "welcome":
        return this.begin(message.log);
      case "state":
        this.state = message;
        return true;
      case "run":
        this.put(message.run);
        return true;
      case "ops":
        this.receive(message, again);
        return false;
      case "gone":
        this.runs = this.runs.filter(({ run }) => !message.runs.includes(run.id));
        return true;
      case "ack":
        for (const { transcript } of this.runs) transcript.acknowledge(message.question);
        return false;
      default:
        return false;
    }
  }

  /** Another log is another process: nothing of the one before is in it. */
  private begin(log: string): boolean {
    const other = this.log !== log;
    this.log = log;
    this.asked.clear();
    if (!other) return false;
    this.state = null;
    this.runs = [];
    return true;
  }

  private put(run: Run): void {
    const at = this.runs.findIndex((known) => known.run.id === run.id);
    const shown = { run, transcript: this.runs[at]?.transcript ?? new TranscriptStore() };
    this.runs = at < 0 ? [...this.runs, shown] : this.runs.with(at, shown);
  }

  private receive(message: RunOpsMessage, again: (message: AgainMessage) => void): void {
    const transcript = this.runs.find(({ run }) => run.id === message.run)?.transcript;
    if (!transcript || transcript.receive({ ...message, type: "ops" })) return;
    // messages go on arriving until the kernel has answered: one question for each gap
    const asked = this.asked.get(message.run);
    if (asked?.have === transcript.have && Date.now() - asked.at < ASK_AGAIN_MS) return;
    this.asked.set(message.run, { have: transcript.have, at: Date.now() });
    again({ type: "again", run: message.run, have: transcript.have });
  }
}
