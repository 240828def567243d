import { runLonger } from './longer.js'

await runLonger({
  name: 'soak',
  file: 'test/long/soak.test.ts',
  usual: { minutes: '30', seed: undefined },
  // On a machine that has other things to do it may take three times as long.
  timeoutSeconds: minutes => 3 * 60 * minutes + 180,
  settings: ({ minutes }) => ({ SOAK_SECONDS: String(60 * Number(minutes)) })
})
