import js from "@eslint/js";
import tseslint from "typescript-eslint";

const globals = (...names) => Object.fromEntries(names.map((name) => [name, "readonly"]));

export default tseslint.config(
  { ignores: ["lib/", "coverage/", "node_modules/"] },
  js.configs.recommended,
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // a switch is one decision, however many kinds there are
      complexity: ["error", { max: 10, variant: "modified" }],
      // the shape of the wire is a type with a tag, and so are the unions made of it
      "@typescript-eslint/consistent-type-definitions": "off",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
    },
  },
  {
    files: ["src/**/*.ts"],
    rules: {
      // what is written into the page is text and attributes, never HTML
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({ property }))],
    },
  },
  {
    files: ["test/**/*.ts"],
    rules: {
      // as querySelector itself has it
      "@typescript-eslint/no-unnecessary-type-parameters": "off",
    },
  },
  { files: ["**/*.cjs"], languageOptions: { sourceType: "commonjs", globals: globals("module") } },
  { files: ["**/*.mjs"], languageOptions: { globals: globals("console", "process", "setTimeout", "URL") } },
  { files: ["preview/*.mjs"], languageOptions: { globals: globals("document", "location", "URLSearchParams") } },
);
