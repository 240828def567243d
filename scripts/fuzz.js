import { parseArgs } from 'node:util'
import { compile } from './compile.js'
import { giveUpOn, requireNode, say } from './ground.js'
import { install } from './install.js'
import { close, runTap } from './tap.js'

const usage = 'npm run fuzz -- [--minutes N] [--requests N] [--seed N]'
const usualMinutes = '10'
// Beyond the time that it runs for: what goes wrong is made shorter, and the last case is played to its end.
const moreSeconds = 300

requireNode()
const { minutes, requests, seed } = wanted()
close(await fuzz())

async function fuzz () {
  const fault = await install() ?? await compile()
  if (fault !== undefined) return { faults: [fault] }
  Object.assign(process.env, { SEED: seed, FUZZ_MINUTES: minutes, ...(requests !== undefined && { FUZZ_REQUESTS: requests }) })
  say(`random requests for ${requests === undefined ? `${minutes} minutes` : `${requests} requests, ${minutes} minutes at most`}; npm run fuzz -- --seed ${seed} takes this run again ...`)
  return await runTap('--disable-coverage', `--timeout=${Math.ceil(Number(minutes) * 60) + moreSeconds}`, '--jobs=1', 'test/long/fuzz.test.ts')
}

/** What was asked for on the command line, or else in the environment. */
function wanted () {
  const { FUZZ_MINUTES, FUZZ_REQUESTS, SEED } = process.env
  try {
    const { values } = parseArgs({ options: { minutes: { type: 'string' }, requests: { type: 'string' }, seed: { type: 'string' } } })
    const all = {
      minutes: values.minutes ?? FUZZ_MINUTES ?? usualMinutes,
      requests: values.requests ?? FUZZ_REQUESTS,
      seed: values.seed ?? SEED ?? String(Date.now() % 1_000_000_000)
    }
    const wrong = Object.entries(all).find(([, value]) => value !== undefined && !(Number(value) > 0))
    if (wrong !== undefined) throw new Error(`expected a number above 0 for ${wrong[0]}`)
    return all
  } catch (error) {
    return giveUpOn(`${error.message}\n${usage}`)
  }
}
