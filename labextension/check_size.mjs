/** What a page may have to fetch of the extension, compressed, when all of it is used. */

import { readdir, readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const STATIC = new URL("../src/cellwright/labextension/static/", import.meta.url);
const BUDGET = 400 * 1000;

let total = 0;
for (const name of await readdir(STATIC)) {
  if (name.endsWith(".js")) total += gzipSync(await readFile(new URL(name, STATIC))).length;
}
console.log(`labextension: ${total} bytes, gzip`);
if (total > BUDGET) throw new Error(`the extension is over its budget of ${BUDGET} bytes`);
