/** The order of what the search finds: pages for users first, answers to questions ahead of them, reasons and protocols last. */
const ANSWERS = ["faq", "troubleshooting", "get-started"];
const LAST = /^(decisions|protocol|examples)\/|^reference\/(changelog|contributing)$|^(performance|architecture|whats-new)$/;

var Scorer = {
  score: ([page, , , , score]) => (LAST.test(page) ? score - 1000 : ANSWERS.includes(page) ? score + 10 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
