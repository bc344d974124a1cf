/** What is asked: Claude's own questions, as the input of its call has them, and changes of cells. */

import type { AskOp, Json, JsonObject } from "./protocol";

export type Option = { label: string; description: string; preview: string };
export type AskedQuestion = { text: string; header: string; options: Option[]; several: boolean };

/** Whether a cell of a notebook is to be changed: that is accepted or rejected. */
export function isCellChange({ name, kind }: AskOp): boolean {
  return name === "NotebookEdit" && kind === "permission";
}

/** The questions in `input`; none when it is not here, or not what the kernel says that it is. */
export function questionsOf(input: JsonObject | null): AskedQuestion[] {
  const questions = list(input?.questions).map((question) => ({
    text: string(question.question),
    header: string(question.header),
    several: question.multiSelect === true,
    options: list(question.options).map((option) => ({
      label: string(option.label),
      description: string(option.description),
      preview: string(option.preview),
    })),
  }));
  return questions.every(({ text, options }) => text && options.length > 0) ? questions : [];
}

function list(value: Json | undefined): JsonObject[] {
  const items = Array.isArray(value) ? value : [];
  return items.filter((item): item is JsonObject => typeof item === "object" && item !== null && !Array.isArray(item));
}

function string(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
