/** Vite gives a file's text for `?raw`. */
declare module "*?raw" {
  const text: string;
  export default text;
}
