/** Serves this folder and the built renderer at http://localhost:8123 (build first: `npm run build:widget`). */

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const PORT = Number(process.env.PORT ?? 8123);
const TYPES = { html: "text/html", mjs: "text/javascript", js: "text/javascript" };
const FILES = {
  "/": "index.html",
  "/preview.mjs": "preview.mjs",
  "/scenes.mjs": "scenes.mjs",
  "/themes.mjs": "themes.mjs",
  "/transcript.js": "../../src/cellwright/kernel/widgets/static/transcript.js",
};

createServer(async (request, response) => {
  const file = FILES[new URL(request.url, "http://localhost").pathname];
  if (!file) {
    response.writeHead(404).end();
    return;
  }
  const content = await readFile(new URL(file, import.meta.url));
  response.writeHead(200, { "content-type": `${TYPES[file.split(".").pop()]}; charset=utf-8`, "cache-control": "no-store" });
  response.end(content);
}).listen(PORT, "127.0.0.1", () => console.log(`http://localhost:${PORT}/`));
