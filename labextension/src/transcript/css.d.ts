/** esbuild's loader `text` makes a style sheet a string. */
declare module "*.css" {
  const css: string;
  export default css;
}
