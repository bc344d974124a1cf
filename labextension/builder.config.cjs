/**
 * What JupyterLab's builder takes of us. Its own numbers for modules come from their absolute paths, so two folders would
 * give two files of one commit; numbers in the order of use are the same everywhere.
 */
module.exports = { optimization: { moduleIds: "natural", chunkIds: "deterministic" } };
