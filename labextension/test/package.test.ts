import { expect, it } from "vitest";

import pyproject from "../../pyproject.toml?raw";
import lock from "../package-lock.json?raw";
import { version } from "../package.json";
import typecheckLock from "../typecheck/package-lock.json?raw";

it("has the version of the Python package", () => {
  expect(/^version = "(.*)"$/m.exec(pyproject)?.[1]).toBe(version);
});

it("locks its packages without saying where to download them", () => {
  expect(lock).not.toContain('"resolved"');
  expect(typecheckLock).not.toContain('"resolved"');
});
