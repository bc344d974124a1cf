/** A piece of an answer as Markdown: of the few elements that answers are made of. */

import { FORMULA, isNotRead } from "./answer_text";

/** The Markdown of what `fragment` holds. */
export function markdownOf(fragment: ParentNode & Node): string {
  return blocks(fragment).join("\n\n").replace(/\n{3,}/g, "\n\n").trim();
}

const MARKS: Readonly<Record<string, string>> = { STRONG: "**", B: "**", EM: "*", DEL: "~~" };

function blocks(parent: Node): string[] {
  const found: string[] = [];
  let line = "";
  const endLine = (): void => {
    if (line.trim()) found.push(line.trim());
    line = "";
  };
  for (const child of parent.childNodes) {
    const block = child instanceof HTMLElement ? blockOf(child) : null;
    if (block === null) {
      line += inline(child);
      continue;
    }
    endLine();
    found.push(...block);
  }
  endLine();
  return found;
}

/** The blocks of an element that begins lines of its own; null for what stands within one. */
function blockOf(node: HTMLElement): string[] | null {
  if (isNotRead(node)) return [];
  switch (node.localName) {
    case "p":
    case "summary":
    case "footer":
    case "dt":
    case "dd":
      return nonEmpty(inlineOf(node));
    case "h2":
    case "h3":
    case "h4":
    case "h5":
    case "h6":
      return nonEmpty(`${"#".repeat(Number(/h(\d)/.exec(node.className)?.[1] ?? 2))} ${inlineOf(node).trim()}`);
    case "pre":
      return [fenced(node.textContent, node.closest("figure")?.querySelector(".language")?.textContent ?? "")];
    case "figure":
      return [...node.querySelectorAll("pre")].map((code) => fenced(code.textContent, node.querySelector(".language")?.textContent ?? ""));
    case "blockquote":
      return [blocks(node).join("\n\n").replace(/^/gm, "> ")];
    case "ul":
    case "ol":
      return [listOf(node)];
    case "table":
      return [tableOf(node)];
    case "hr":
      return ["---"];
    case "div":
    case "section":
    case "details":
    case "dl":
      return node.matches(".diff, .diff-box") ? [fenced(diffOf(node), "diff")] : blocks(node);
    default:
      return null;
  }
}

function nonEmpty(text: string): string[] {
  return text.trim() ? [text.trim()] : [];
}

function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), ([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language === "text" ? "" : language}\n${text.replace(/\n$/, "")}\n${fence}`;
}

function diffOf(node: HTMLElement): string {
  const lines = [...node.querySelectorAll<HTMLElement>(".line")].filter((line) => !line.hidden);
  return lines.map((line) => `${line.querySelector(".sign")?.textContent ?? ""}${line.querySelector(".text")?.textContent ?? ""}`.replace(/\n$/, "")).join("\n");
}

function listOf(list: HTMLElement): string {
  let number = Number(list.getAttribute("start") ?? 1);
  const items = [...list.children].filter((item) => !isNotRead(item)).map((item) => {
    const mark = list.localName === "ol" ? `${number++}. ` : "- ";
    const box = item.querySelector<HTMLInputElement>(":scope > label > input[type=checkbox], :scope > p > label > input[type=checkbox]");
    const parts = blocks(item);
    const text = parts.join(item.querySelector(":scope > p") ? "\n\n" : "\n");
    return `${mark}${box ? `[${box.checked ? "x" : " "}] ` : ""}${text.replaceAll("\n", `\n${" ".repeat(mark.length)}`)}`;
  });
  return items.join("\n");
}

function tableOf(table: HTMLElement): string {
  const rows = [...table.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => inlineOf(cell).trim().replaceAll("|", "\\|")));
  const [head = [], ...rest] = rows;
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rest.map(line)].join("\n");
}

function inlineOf(parent: Node): string {
  return Array.from(parent.childNodes, inline).join("");
}

function inline(node: Node): string {
  if (node instanceof Text) return node.data;
  if (!(node instanceof HTMLElement)) return "";
  // the name of a file is a button, and text all the same
  if (isNotRead(node) && !node.matches(".file-link")) return "";
  if (node.matches(FORMULA)) return node.dataset.source ?? "";
  if (node instanceof HTMLBRElement) return "\n";
  if (node instanceof HTMLImageElement) return `![${node.alt}]`;
  const text = inlineOf(node);
  return text === "" ? "" : marked(node, text);
}

function marked(node: HTMLElement, text: string): string {
  if (node.localName === "code") return text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``;
  if (node.localName === "a") return `[${text}](${node.getAttribute("href") ?? ""})`;
  const mark = MARKS[node.nodeName] ?? "";
  return `${mark}${text}${mark}`;
}
