/** Style sheets of the page itself, for what is drawn outside the transcripts. */

export function addPageStyle(css: string): void {
  const style = document.createElement("style");
  style.textContent = css;
  document.head.append(style);
}
