/** What the page was told of its server. */

/** Where the server's files are, on its disk; empty: not known. */
export function serverRoot(): string {
  const config = document.getElementById("jupyter-config-data")?.textContent ?? "{}";
  const { serverRoot } = JSON.parse(config) as { serverRoot?: string };
  return serverRoot ?? "";
}

/** A name that no other page has; `crypto.randomUUID` is missing where the page came by plain HTTP. */
export function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
