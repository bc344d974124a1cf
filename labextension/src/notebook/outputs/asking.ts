/** The way from an output to Claude. The sidebar says how it asks; whoever shows answers elsewhere says so here. */

import type { Attachment } from "../../transport/chat_protocol";

export type AskingWay = {
  /** Sends a prompt at once, and shows the answer. */
  send(prompt: string, attachments: readonly Attachment[]): Promise<void>;
  /** Brings the keyboard to the composer, which lists what is marked. */
  compose(): Promise<void>;
};

let way: AskingWay | null = null;

export function setAskingWay(now: AskingWay): void {
  way = now;
}

/** Sends what an action asks about an output: the one place that says where it is asked. */
export async function askAboutOutput(prompt: string, attachments: readonly Attachment[]): Promise<void> {
  await way?.send(prompt, attachments);
}

export async function openComposer(): Promise<void> {
  await way?.compose();
}
