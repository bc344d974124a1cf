/** What is a prompt cell, what can be completed in it, what it mentions. */

import { expect, it } from "vitest";

import { fencedCode, headerRange, isPrompt, marksOf } from "../../../src/notebook/prompt_cells/prompt_text";
import { promptTriggerAt } from "../../../src/notebook/prompt_cells/prompt_trigger";

it("knows a prompt cell by its first word", () => {
  const prompts = ["%%claude", "%%claude\nx", "%%claude --new fix it", "\n  %%claude\nx"];
  const others = ["%%claudette", "x = 1\n%%claude", "%claude fix", "# %%claude", ""];
  expect(prompts.filter(isPrompt)).toEqual(prompts);
  expect(others.filter(isPrompt)).toEqual([]);
});

it.each([
  // ‸ is the caret
  ["%%claude\n/he‸", "command:he"],
  ["%%claude /he‸", "command:he"],
  ["%%claude --new\n/he‸", "command:he"],
  ["%%claude\n\n/he‸", "command:he"],
  ["%%claude\nwhat of /etc‸", ""],
  ["%%claude\nlook at @‸", "mention:"],
  ["%%claude look at @cell:2‸", "mention:cell:2"],
  ["%%claude\n@‸", "mention:"],
  ["%%claude\nme@here‸", ""],
  ["%%claude\nplot $df‸", "variable:df"],
  ["%%claude --mo‸", "option:mo"],
  ["%%claude --model opus --‸\nplot", "option:"],
  ["%%claude\nls --al‸", ""],
  ["%%cl‸aude", ""],
  ["print('@‸')", ""],
])("completes in %j %s", (marked, wanted) => {
  const caret = marked.indexOf("‸");
  const source = marked.replace("‸", "");
  const trigger = promptTriggerAt(source, caret);
  expect(trigger ? `${trigger.kind}:${trigger.text}` : "").toBe(wanted);
  if (trigger) expect(source.slice(trigger.start, trigger.end)).toMatch(/^[/@$-]/);
});

it.each([
  ["fix @src/a.py and @cell:ab-1, then $df.", "@src/a.py @cell:ab-1 $df"],
  ['@"my plan.md", @cell:[7] and @agent-reviewer: see @a.py#L3-9.', '@"my plan.md" @cell:[7] @agent-reviewer @a.py#L3-9'],
  ["ask me@here.org for $5; a `@span` and \\@none", ""],
  ["```python\n@decorated\n$x\n```\nand @after.md", "@after.md"],
  ["the norm $x$ of $v", "$v"],
  ["/undo 2", "/undo"],
  ["see @notes.", "@notes"],
])("marks what is mentioned in %j", (words, wanted) => {
  const source = `%%claude\n${words}`;
  const mentions = marksOf(source).filter(({ kind }) => kind === "mention");
  expect(mentions.map(({ from, to }) => source.slice(from, to)).join(" ")).toBe(wanted);
});

it("tells options and code from words", () => {
  const source = "%%claude --model opus --new\nrun it:\n```sh\nls --all\n```\ndone";
  const options = marksOf(source).filter(({ kind }) => kind === "option");
  expect(options.map(({ from, to }) => source.slice(from, to))).toEqual(["--model", "--new"]);
  expect(fencedCode(source).map(({ from, to }) => source.slice(from, to))).toEqual(["```sh\nls --all\n```"]);
});

it.each([
  ["%%claude\nx = 1", "x = 1"],
  ["%%claude --new\nx = 1", "x = 1"],
  ["%%claude plot it\nx = 1", "plot it\nx = 1"],
  ["%%claude", ""],
  ["x = 1", "x = 1"],
])("makes code of %j", (source, code) => {
  const { from, to } = headerRange(source);
  expect(source.slice(0, from) + source.slice(to)).toBe(code);
});
