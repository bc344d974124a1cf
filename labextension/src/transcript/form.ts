/** What a question's card holds to answer it with. */

import type { JsonObject, Scope } from "./protocol";

export type Given = { behavior: "allow" | "deny"; scope: Scope; reason: string; input: JsonObject | null };

/** What a form is given by its card. */
export type Card = {
  /** Whether an answer counts now. */
  readonly ready: () => boolean;
  readonly send: (given: Given) => void;
  /** Says something about answering. */
  readonly tell: (text: string) => void;
  /** Takes the keyboard back from a field. */
  readonly focus: () => void;
};

export type Form = {
  /** Disabled by the card while no answer counts. */
  readonly node: HTMLFieldSetElement;
  /** Does what `event` asks for, if it is one of the form's keys. */
  press(event: KeyboardEvent): void;
};
