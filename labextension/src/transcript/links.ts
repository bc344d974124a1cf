/** Which addresses of the model's text may be followed or drawn. */

const FOLLOWED = new Set(["http:", "https:", "mailto:"]);
const DRAWN = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;

/** The address as a browser understands it, or null where a click on it could do more than open a page. */
export function safeHref(href: string): string | null {
  try {
    // without a base: a relative address would be one of the Jupyter server's own
    const url = new URL(href);
    return FOLLOWED.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** Whether `href` is an image that is wholly in the text: drawing it asks no server. */
export function isInlineImage(href: string): boolean {
  return DRAWN.test(href);
}
