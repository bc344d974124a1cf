/** What stands behind the list: the order of what fits a few letters, the word at the caret, past prompts, paths. */

import { expect, it } from "vitest";

import order from "../../../docs/protocol/completion-order.json";
import { commandName, fileMention, kernelPath, triggerAt } from "../../src/composer/completions";
import { fuzzyFilter, fuzzyMatch, pathScore } from "../../src/composer/fuzzy_match";
import { tolerantStorage, PromptHistory } from "../../src/composer/prompt_history";
import { KeptInMemory } from "./composer_scene";

// the kernel's tests read the same file
it.each(order.names)("$query finds the likeliest of $of first", ({ query, of: names, order: expected }) => {
  expect(fuzzyFilter(query, names, (name) => name)).toEqual(expected);
});

it.each(order.paths)("$query finds the likeliest path of $of first", ({ query, of: paths, order: expected }) => {
  expect(fuzzyFilter(query, paths, (path) => path, pathScore)).toEqual(expected);
});

it("leaves everything in its place where nothing is typed", () => {
  expect(fuzzyFilter("", ["b", "a"], (name) => name)).toEqual(["b", "a"]);
});

it("says where the letters stand", () => {
  expect(fuzzyMatch("rdf", "raw_df")?.places).toEqual([0, 4, 5]);
  expect(fuzzyMatch("per", "supper_permit")?.places).toEqual([7, 8, 9]);
  expect(fuzzyMatch("x", "abc")).toBeNull();
});

it.each([
  ["/", "command", ""],
  ["/per", "command", "per"],
  ["@", "mention", ""],
  ["look at @src/ap", "mention", "src/ap"],
  ['see @"two wo', "mention", '"two wo'],
  ["(@cell:3", "mention", "cell:3"],
  ["why is $", "variable", ""],
  ["why is $df_c", "variable", "df_c"],
  ["why is $größ", "variable", "größ"],
  ["why is $α_1", "variable", "α_1"],
])("in %j there is something to complete", (written, kind, text) => {
  const found = triggerAt(written, written.length);
  expect(found && [found.kind, found.text]).toEqual([kind, text]);
});

it.each(["", "a /per", "/undo 3", "me@example.com", "it costs $5", "a$b", "ä$b", "$½", "@done ", "\n/help", "$x$"])("in %j there is not", (written) => {
  expect(triggerAt(written, written.length)).toBeNull();
});

it("takes the whole word where the caret stands in it", () => {
  expect(triggerAt("use @src/app.py now", 8)).toEqual({ kind: "mention", start: 4, end: 15, text: "src" });
  expect(triggerAt("/undo", 2)).toEqual({ kind: "command", start: 0, end: 5, text: "u" });
});

it("knows commands from prompts that begin with a slash", () => {
  expect(commandName("/undo 3")).toBe("undo");
  expect(commandName("  /status")).toBe("status");
  expect(commandName("/etc/hosts: what is it?")).toBeNull();
});

it.each([
  ["src/app.py", "@src/app.py"],
  ["two words.txt", '@"two words.txt"'],
  ["a(1).py", '@"a(1).py"'],
  ["cell:3", '@"cell:3"'],
  ["odd.", '@"odd."'],
])("mentions %s", (path, mention) => {
  expect(fileMention(path)).toBe(mention);
});

it.each([
  ["project/src/a.py", "/home/ada", "/home/ada/project", "src/a.py"],
  ["other/a.py", "/home/ada/", "/home/ada/project/", "/home/ada/other/a.py"],
  ["RTC:project/a.py", "/home/ada", "/home/ada/project", "a.py"],
  ["projects/a.py", "/home/ada", "/home/ada/project", "/home/ada/projects/a.py"],
  ["a.py", "", "/home/ada", "a.py"],
  ["a.py", "/home/ada", "", "/home/ada/a.py"],
])("%s below %s is for a kernel in %s: %s", (path, root, cwd, known) => {
  expect(kernelPath(path, root, cwd)).toBe(known);
});

it("goes through past prompts and back to what was being written", () => {
  const history = new PromptHistory(new KeptInMemory(), "k");
  for (const prompt of ["one", "two", "one"]) history.add(prompt);
  expect([history.before("dra", []), history.before("", []), history.before("", [])]).toEqual(["one", "two", null]);
  expect([history.after(), history.after(), history.after()]).toEqual(["one", "dra", null]);
});

it("knows the session's own prompts as well, each once, where it was said last", () => {
  const history = new PromptHistory(new KeptInMemory(), "k");
  history.add("kept");
  history.add("said");
  const said = ["in a cell", "said", "in a cell"];
  const seen = [];
  for (let prompt = history.before("", said); prompt !== null; prompt = history.before("", said)) seen.push(prompt);
  expect(seen).toEqual(["in a cell", "said", "kept"]);
});

it("is another list for another conversation, there again after a reload, and bounded", () => {
  const memory = new KeptInMemory();
  const history = new PromptHistory(memory, "k");
  for (let number = 0; number < 150; number += 1) history.add(`prompt ${number}`);
  history.add("x".repeat(50_000));
  expect(new PromptHistory(memory, "other").before("", [])).toBeNull();
  expect(new PromptHistory(memory, "k").before("", [])).toBe("prompt 149");
  expect(memory.getItem("k")?.length).toBeLessThan(5_000);
});

it("bears a memory that holds something else, or nothing", () => {
  const memory = new KeptInMemory();
  for (const kept of ["no json", "5", '{"a": 1}', "[1, null]"]) {
    memory.setItem("k", kept);
    expect(new PromptHistory(memory, "k").before("", [])).toBeNull();
  }
  const full = tolerantStorage({
    getItem: () => { throw new Error("not allowed"); },
    setItem: () => { throw new Error("full"); },
  });
  const history = new PromptHistory(full, "k");
  history.add("said");
  expect(history.before("", [])).toBe("said");
});
