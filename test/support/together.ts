/**
 * Options of a test that runs beside others of its file, up to `t.jobs`. Tap writes into the options, so concurrent
 * tests with one object would all run the same callback.
 */
export function together (): { buffered: true } {
  return { buffered: true }
}
