import { runLonger } from './longer.js'

await runLonger({
  name: 'fuzz',
  file: 'test/long/fuzz.test.ts',
  usual: { minutes: '10', requests: undefined, seed: undefined },
  // What goes wrong is made shorter, and the last case is played to its end.
  timeoutSeconds: minutes => 60 * minutes + 300,
  settings: ({ minutes, requests }) => ({ FUZZ_MINUTES: minutes, ...(requests !== undefined && { FUZZ_REQUESTS: requests }) })
})
