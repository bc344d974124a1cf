/** Keys that are typed while a prompt is on its way: the field takes none then, and shows them once the kernel has the prompt. */

/** "Enter", "ArrowUp", …: keys that are no text have names. */
const TEXT = /^.$/u;

export class TypedAhead {
  private readonly keys: string[] = [];

  /** Whether the key was one of text, and is kept. */
  key({ key, shiftKey, ctrlKey, metaKey, altKey, isComposing }: KeyboardEvent): boolean {
    if (ctrlKey || metaKey || altKey || isComposing) return false;
    if (key === "Backspace") this.keys.pop();
    else if (key === "Enter" && shiftKey) this.keys.push("\n");
    else if (TEXT.test(key)) this.keys.push(key);
    else return false;
    return true;
  }

  /** What was typed; it is not kept any longer. */
  take(): string {
    return this.keys.splice(0).join("");
  }
}
