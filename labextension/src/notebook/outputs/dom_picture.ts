/**
 * A picture of what the page shows in a node: of the canvases and drawings of a chart themselves, of anything else by a library
 * that draws the DOM anew, loaded when it is first needed. Bounded in pixels, bytes, parts and time.
 */

/** Why there is no picture; the kernel says it to Claude in words (open_notebooks.py). */
export type Problem = "not_shown" | "changed" | "hidden" | "frame" | "foreign" | "too_large" | "late" | "failed" | "empty";

export class Undrawable extends Error {
  constructor(readonly problem: Problem) {
    super(problem);
  }
}

/** `data` is base64. `cut`: it ends before what is shown does. */
export type DrawnPicture = { readonly data: string; readonly media_type: "image/png" | "image/jpeg"; readonly cut: boolean };

/** As the Messages API takes pictures without scaling them down itself, and about 1,400 tokens at most. */
const MAX_SIDE = 1_568;
const MAX_PIXELS = 1_100_000;
const MAX_BYTES = 1_500_000;
const PNG_BYTES = 700_000;
const MAX_SCALE = 1.5;
/** Of what is shown, in pixels of the page: the rest of a long table is cut off. */
const MAX_HEIGHT = 2_000;
/** The library computes the style of each. */
const MAX_ELEMENTS = 3_000;

const LOOK_MS = 60;
const MIN_LOOKS = 8;
const GRAPHICS = "canvas, svg, img";
/** A chart is its graphics: what its library puts beside them are menus. */
const CHARTS = ".js-plotly-plot, .vega-embed, [data-root-id], .bk-root";
const NO_CONTENT = new Set(["SCRIPT", "STYLE", "LINK", "TEMPLATE"]);

/** The picture of `node`, which has settled; until `deadline` (of `performance.now`). Throws Undrawable. */
export async function pictureOf(node: HTMLElement, deadline: number): Promise<DrawnPicture> {
  const root = contentOf(node);
  const { width, height } = root.getBoundingClientRect();
  if (width < 2 || height < 2) throw new Undrawable(isVisible(node) ? "empty" : "hidden");
  const canvas = await withinTime(canvasOf(root), deadline);
  return encoded(canvas, height > MAX_HEIGHT);
}

async function canvasOf(root: HTMLElement): Promise<HTMLCanvasElement> {
  const graphics = graphicsIn(root);
  for (const graphic of graphics) refuseForeign(graphic);
  const isChart = root.closest(CHARTS) !== null || root.querySelector(CHARTS) !== null || root.matches(GRAPHICS);
  return isChart && graphics.length > 0 ? composed(graphics, root) : redrawn(root);
}

// What is drawn already: canvases, SVG and images, one over the other as they stand in the page.

type Graphic = HTMLCanvasElement | SVGSVGElement | HTMLImageElement;

function graphicsIn(root: HTMLElement): Graphic[] {
  const found: Graphic[] = [];
  const look = (parent: ParentNode): void => {
    for (const child of parent.children) {
      if (child.matches(GRAPHICS)) found.push(child as Graphic);
      else {
        look(child);
        if (child.shadowRoot) look(child.shadowRoot);
      }
    }
  };
  if (root.matches(GRAPHICS)) return [root as unknown as Graphic];
  look(root);
  if (root.shadowRoot) look(root.shadowRoot);
  return found.filter((graphic) => {
    const { width, height } = graphic.getBoundingClientRect();
    // menus' icons are none
    return width > 24 && height > 24;
  });
}

async function composed(graphics: readonly Graphic[], root: HTMLElement): Promise<HTMLCanvasElement> {
  const boxes = graphics.map((graphic) => graphic.getBoundingClientRect());
  const left = Math.min(...boxes.map((box) => box.left));
  const top = Math.min(...boxes.map((box) => box.top));
  const width = Math.max(...boxes.map((box) => box.right)) - left;
  const height = Math.min(Math.max(...boxes.map((box) => box.bottom)) - top, MAX_HEIGHT);
  const scale = scaleFor(width, height);
  const canvas = newCanvas(width * scale, height * scale);
  const context = contextOf(canvas);
  context.fillStyle = backgroundOf(root);
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const [index, graphic] of graphics.entries()) {
    const box = boxes[index];
    if (!box || getComputedStyle(graphic).visibility === "hidden") continue;
    const image = graphic instanceof SVGSVGElement ? await imageOf(graphic, box) : graphic;
    context.drawImage(image, (box.left - left) * scale, (box.top - top) * scale, box.width * scale, box.height * scale);
  }
  return canvas;
}

function imageOf(svg: SVGSVGElement, { width, height }: DOMRect): Promise<HTMLImageElement> {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", `${width}`);
  copy.setAttribute("height", `${height}`);
  copy.style.fontFamily ||= getComputedStyle(svg).fontFamily;
  copy.style.color ||= getComputedStyle(svg).color;
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => { resolve(image); };
    image.onerror = () => { reject(new Undrawable("failed")); };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  });
}

// Everything else: HTML, which no browser gives as a picture.

async function redrawn(root: HTMLElement): Promise<HTMLCanvasElement> {
  if (root.querySelectorAll("*").length > MAX_ELEMENTS) throw new Undrawable("too_large");
  const frames = [...root.querySelectorAll("iframe")];
  if (frames.some((frame) => !frame.contentDocument)) throw new Undrawable("frame");
  const { width, height } = root.getBoundingClientRect();
  const shown = Math.min(height, MAX_HEIGHT);
  const { domToCanvas } = await import("modern-screenshot");
  return domToCanvas(root, {
    width, height: shown,
    scale: scaleFor(width, shown),
    backgroundColor: backgroundOf(root),
    style: { margin: "0", overflow: "hidden" },
    font: false,
    timeout: 3_000,
    // what stands elsewhere is not fetched anew
    fetchFn: (url) => Promise.resolve(isForeign(url) ? NOTHING : false),
  });
}

const NOTHING = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

function isForeign(url: string): boolean {
  return new URL(url, location.href).protocol.startsWith("http") && new URL(url, location.href).origin !== location.origin;
}

/** Throws Undrawable where the browser would not give away what the graphic shows. */
function refuseForeign(graphic: Graphic): void {
  if (graphic instanceof SVGSVGElement) return;
  if (graphic instanceof HTMLImageElement && !graphic.complete) return;
  const probe = contextOf(newCanvas(1, 1));
  try {
    probe.drawImage(graphic, 0, 0, 1, 1);
    probe.getImageData(0, 0, 1, 1);
  } catch (error) {
    if (error instanceof DOMException && error.name === "SecurityError") throw new Undrawable("foreign");
    // an image that is broken, or a canvas without pixels: nothing of it is shown
  }
}

// When a node has been drawn, and what of it is the content.

/** Waits until the node is the same twice, a chart until its library has drawn it; until `deadline`. Throws Undrawable. */
export async function settled(node: HTMLElement, isChart: boolean, deadline: number): Promise<void> {
  let before = "";
  // a page that is busy may look but once in that time
  for (let looks = 1; ; looks++) {
    if (!node.isConnected) throw new Undrawable("hidden");
    const now = stateOf(node, isChart);
    if (now && now === before) return;
    before = now;
    if (looks >= MIN_LOOKS && performance.now() > deadline) {
      if (!isVisible(node)) throw new Undrawable("hidden");
      throw new Undrawable(isBlank(node) ? "empty" : "late");
    }
    await new Promise((resolve) => { setTimeout(resolve, LOOK_MS); });
  }
}

/** What a node shows now, to be compared; "" while it is not there yet. */
function stateOf(node: HTMLElement, isChart: boolean): string {
  const { width, height } = node.getBoundingClientRect();
  if (height < 2) return "";
  const images = [...node.querySelectorAll("img")];
  if (images.some(({ complete }) => !complete)) return "";
  if (node.textContent.trim() === "Loading widget...") return "";
  const graphics = graphicsIn(node).length;
  if (isChart && graphics === 0 && !node.querySelector("iframe, table, .jupyter-widgets, .widget-subarea")) return "";
  return [width, height, graphics, node.querySelectorAll("*").length].join();
}

/** The node without boxes around its only content: a table is narrower than the output that it stands in. */
function contentOf(node: HTMLElement): HTMLElement {
  let root = node;
  for (;;) {
    const [only, ...others] = [...root.children].filter(({ tagName }) => !NO_CONTENT.has(tagName));
    const words = [...root.childNodes].some((child) => child instanceof Text && child.data.trim() !== "");
    if (!(only instanceof HTMLElement) || others.length || words || root.shadowRoot || only.matches("iframe") || isEmpty(only)) return root;
    // a box that is painted belongs to the picture
    if (root !== node && getComputedStyle(root).backgroundColor !== "rgba(0, 0, 0, 0)") return root;
    root = only;
  }
}

function isEmpty(node: HTMLElement): boolean {
  const { width, height } = node.getBoundingClientRect();
  return width < 2 || height < 2;
}

/** A script that draws elsewhere leaves nothing but its margins. */
function isBlank(node: HTMLElement): boolean {
  return isEmpty(node) || (node.innerText.trim() === "" && !node.querySelector("canvas, svg, img, iframe, input, button"));
}

function isVisible(node: HTMLElement): boolean {
  return node.isConnected && node.checkVisibility();
}

/** The colour behind a node. */
function backgroundOf(node: HTMLElement): string {
  for (let at: HTMLElement | null = node; at; at = at.parentElement) {
    const { backgroundColor } = getComputedStyle(at);
    if (backgroundColor && !/^(?:transparent|rgba\(.*, 0\))$/.test(backgroundColor)) return backgroundColor;
  }
  return "white";
}

// Pictures within the limits.

function scaleFor(width: number, height: number): number {
  return Math.min(MAX_SCALE, MAX_SIDE / Math.max(width, height), Math.sqrt(MAX_PIXELS / (width * height)));
}

function newCanvas(width: number, height: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width));
  canvas.height = Math.max(1, Math.round(height));
  return canvas;
}

function contextOf(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const context = canvas.getContext("2d");
  if (!context) throw new Undrawable("failed");
  return context;
}

function encoded(canvas: HTMLCanvasElement, cut: boolean): DrawnPicture {
  if (canvas.width < 2 || canvas.height < 2) throw new Undrawable("empty");
  for (const [type, limit] of [["image/png", PNG_BYTES], ["image/jpeg", MAX_BYTES]] as const) {
    const url = canvas.toDataURL(type, 0.85);
    const data = url.slice(url.indexOf(",") + 1);
    if ((data.length * 3) / 4 <= limit) return { data, media_type: type, cut };
  }
  throw new Undrawable("too_large");
}

async function withinTime<Value>(work: Promise<Value>, deadline: number): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => { reject(new Undrawable("late")); }, Math.max(0, deadline - performance.now()));
  });
  try {
    return await Promise.race([work, late]);
  } catch (error) {
    if (error instanceof Undrawable) throw error;
    console.debug("Cellwright:", error);
    throw new Undrawable(error instanceof DOMException && error.name === "SecurityError" ? "foreign" : "failed");
  } finally {
    clearTimeout(timer);
  }
}
