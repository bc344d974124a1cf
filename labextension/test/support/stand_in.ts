/** In the place of an object of JupyterLab: as much of it as what is tested uses. */
export function standIn<Real>(fake: unknown): Real {
  return fake as Real;
}
