/** Pictures that Claude's code has displayed stand in the notebook's own outputs: they open large as those in a transcript do. */

const AREA = ".jp-OutputArea";
const PICTURES = ".jp-RenderedImage img, .jp-RenderedSVG img";
const PRESSING = new Set(["Enter", " "]);

const watched = new WeakSet<Element>();

/** Has the pictures beside the answer `node` open large, those that come later as well. */
export function openPicturesBeside(node: HTMLElement): void {
  const area = node.closest(AREA);
  if (!area || watched.has(area)) return;
  watched.add(area);
  const look = (): void => {
    for (const picture of area.querySelectorAll<HTMLImageElement>(PICTURES)) offerLarge(picture);
  };
  new MutationObserver(look).observe(area, { childList: true, subtree: true });
  look();
}

function offerLarge(picture: HTMLImageElement): void {
  if (picture.getAttribute("aria-haspopup")) return;
  const name = picture.alt || "Picture shown by the code";
  const attributes = { tabindex: "0", role: "button", "aria-haspopup": "dialog", "aria-label": `Enlarge: ${name}`, title: "Enlarge" };
  for (const [attribute, value] of Object.entries(attributes)) picture.setAttribute(attribute, value);
  picture.style.cursor = "zoom-in";
  const open = async (): Promise<void> => {
    const { showPagePicture } = await import("../../transcript/cards/picture");
    showPagePicture(picture, picture.src, name);
  };
  picture.addEventListener("click", () => { void open(); });
  picture.addEventListener("keydown", (event) => {
    if (!PRESSING.has(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    // the notebook would edit the cell
    event.stopPropagation();
    event.preventDefault();
    void open();
  });
}
