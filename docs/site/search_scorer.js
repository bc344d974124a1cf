/** The order of what the search finds: pages for users first, answers to questions and pages that are named after the words ahead of them, reasons last. */
const ANSWERS = { faq: 10, troubleshooting: 3, "get-started": 3 };
const LAST = /^(decisions|protocol|examples)\/|^reference\/(changelog|contributing)$|^(performance|architecture|whats-new)$/;
/** Pages that answer words which they do not have in their names. */
const ALIASES = [
  [/\b(vs ?code|colab|kaggle|marimo|pycharm|windows)\b/, "front-ends"],
  [/\b(bypass|always allow|plan mode)\b/, "permissions"],
  [/\b(sandbox|bubblewrap|landlock)\b/, "sandbox"],
  [/\bundo\b/, "undo"],
  [/%%claude|\binstall\b/, "get-started"],
  [/\b(cursor|copilot|jupyter.?ai)\b/, "coming-from-other-assistants"],
  [/\b(api.?keys?|bedrock|vertex|subscription)\b/, "providers"],
];
const ASKED = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase();
const WORDS = ASKED.match(/[\w.]+/g) ?? [];
const MEANT = new Set(ALIASES.filter(([words]) => words.test(ASKED)).map(([, page]) => page));
/** Whether a page's name or title has all the words: "hub" is in JupyterHub, "cost" in Costs. */
const isNamed = (page, title) =>
  !page.startsWith("reference/") && WORDS.every((word) => `${page} ${title.split(">")[0]}`.toLowerCase().includes(word));

var Scorer = {
  score: ([page, title, , , score]) =>
    LAST.test(page) ? score - 1000 : score + (ANSWERS[page] ?? 0) + (isNamed(page, title) ? 15 : 0) + (MEANT.has(page) ? 30 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
