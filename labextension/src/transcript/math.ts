/** Mathematics stays the text it is: `$a_1 * b_2$` must not lose its underscores and asterisks to emphasis. */

import type { MarkedExtension } from "marked";

// \( … \), \[ … \], $$ … $$, and $ … $ by pandoc's rule: no space inside the dollars, no digit after ("$5 and $10" is money)
const MATH = /^(?:\\\([^\n]*?\\\)|\\\[[\s\S]*?\\\]|\$\$[\s\S]+?\$\$|\$(?![\s$])(?:\\.|[^\n$\\])*?(?<!\s)\$(?!\d))/;
const START = /\\[([]|\$/;

export const mathAsText: MarkedExtension = {
  extensions: [
    {
      name: "math",
      level: "inline",
      start: (src) => START.exec(src)?.index,
      tokenizer: (src) => {
        const raw = MATH.exec(src)?.[0];
        return raw === undefined ? undefined : { type: "math", raw };
      },
    },
  ],
};
