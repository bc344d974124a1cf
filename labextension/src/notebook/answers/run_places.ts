/** The places of runs among a cell's outputs: each of them names its run, and its number among the run's outputs. */

import type { IDisplayData, IMimeBundle, IOutput } from "@jupyterlab/nbformat";
import { JSONExt } from "@lumino/coreutils";

import type { SavedCellOutput, SavedMessage } from "../../transcript/protocol";
import { TRANSCRIPT_TYPE } from "../../transcript/protocol";
import { liveRun } from "./saved_transcript";

type Place = { readonly run: string; readonly output: number };

/** The place that an output says it is in; null for what is of no run. */
export function placeOf(of: object): Place | null {
  const { metadata } = of as { metadata?: { cellwright?: Partial<Record<keyof Place, unknown>> } };
  const { run, output } = metadata?.cellwright ?? {};
  return typeof run === "string" && typeof output === "number" ? { run, output } : null;
}

/** True where an output stands in one of the places of what is saved. */
export function isPlaceOf(output: IOutput, saved: SavedMessage): boolean {
  return numberIn(output, runsIn(saved)) >= 0;
}

/** The outputs with what is saved in its places, and what is not there yet below them; those that stay are the same objects. */
export function withSaved(outputs: readonly IOutput[], saved: SavedMessage): IOutput[] {
  const runs = runsIn(saved);
  const after = [...outputs];
  let at = after.findIndex((output) => numberIn(output, runs) >= 0);
  if (at < 0) at = after.length;
  saved.outputs.forEach((output, number) => {
    const place = after.findIndex((each) => numberIn(each, runs) === number);
    if (place >= 0) at = place;
    // what the cell has printed since stands where it is
    else while (at < after.length && after[at]?.output_type !== "display_data") at++;
    if (place < 0) after.splice(at, 0, displayData(output));
    else if (!isAsSaved(after[at] as IDisplayData, output)) after[at] = displayData(output);
    at++;
  });
  return after;
}

/** The positions of outputs that stand below another one of the same place: two pages have written it. */
export function repeatedPlaces(outputs: readonly object[]): number[] {
  const seen = new Set<string>();
  return outputs.flatMap((output, index) => {
    const place = placeOf(output);
    const name = place ? `${place.output} ${place.run}` : "";
    if (!place || !seen.has(name)) {
      seen.add(name);
      return [];
    }
    return [index];
  });
}

/** True while the run goes on of which this is a part. */
export function isLive({ data }: Pick<SavedCellOutput, "data">): boolean {
  return liveRun(data[TRANSCRIPT_TYPE]) !== null;
}

/** Its own name, and that which its saved outputs have: a run that was played says the same each time. */
function runsIn({ run, outputs }: SavedMessage): Set<string> {
  return new Set([run, ...outputs.flatMap((output) => placeOf(output)?.run ?? [])]);
}

/** The number of an output among those of these runs; -1 for any other. */
function numberIn(output: IOutput, runs: ReadonlySet<string>): number {
  const place = placeOf(output);
  return place && runs.has(place.run) ? place.output : -1;
}

/** What shows a run that goes on stays until there is more, and never stands in the place of what was saved. */
function isAsSaved(there: IDisplayData, output: SavedCellOutput): boolean {
  return isLive(output) || (JSONExt.deepEqual(there.data, output.data) && JSONExt.deepEqual(there.metadata, output.metadata));
}

function displayData({ data, metadata }: SavedCellOutput): IDisplayData {
  return { output_type: "display_data", data: data as IMimeBundle, metadata };
}
