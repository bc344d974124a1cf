import { expect, test, vi } from "vitest";

import { IdleDrawing } from "../../../src/sidebar/panel/run_list";

class Run {
  drawn = false;

  constructor(readonly name: string, private readonly order: string[]) {}

  draw(): void {
    this.drawn = true;
    this.order.push(this.name);
  }
}

function scene(): { order: string[]; oldest: Run; older: Run; ahead: IdleDrawing<Run> } {
  const order: string[] = [];
  const [oldest, older, newer, newest] = [new Run("oldest", order), new Run("older", order), new Run("newer", order), new Run("newest", order)];
  return { order, oldest, older, ahead: new IdleDrawing(() => [oldest, older, newer, newest]) };
}

test("what is near is drawn first, then all the others, the newest first", async () => {
  const { order, older, ahead } = scene();
  ahead.setNear(older, true);
  expect(order).toEqual([]);
  await vi.waitFor(() => { expect(order).toEqual(["older", "newest", "newer", "oldest"]); });
});

test("what has gone by before there was time is near no more", async () => {
  const { order, oldest, ahead } = scene();
  ahead.setNear(oldest, true);
  ahead.setNear(oldest, false);
  await vi.waitFor(() => { expect(order).toEqual(["newest", "newer", "older", "oldest"]); });
});

test("nothing is drawn any more once it is disposed of", async () => {
  const { order, oldest, ahead } = scene();
  ahead.setNear(oldest, true);
  ahead.dispose();
  await new Promise((resolve) => { setTimeout(resolve); });
  expect(order).toEqual([]);
});
