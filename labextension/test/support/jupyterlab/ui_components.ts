/** In the place of JupyterLab's package: an icon that draws its SVG. */

export class LabIcon {
  element({ tag = "div" }: { tag?: string } = {}): HTMLElement {
    return document.createElement(tag);
  }

  readonly name: string;
  readonly svgstr: string;

  constructor({ name, svgstr }: { name: string; svgstr: string }) {
    this.name = name;
    this.svgstr = svgstr;
  }

  render(host: HTMLElement): void {
    host.innerHTML = this.svgstr;
  }
}
