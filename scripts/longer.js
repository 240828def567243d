import { parseArgs } from 'node:util'
import { giveUpOn, say } from './ground.js'
import { makeReady } from './ready.js'
import { close, runTapTelling } from './tap.js'

/**
 * Runs one of the longer checks by itself, for as long as was asked for: `name` as npm calls it, `usual` what is meant by what is left out, `timeoutSeconds` what it may take at most by the
 * minutes that it runs for, and what it prints while it runs.
 */
export async function runLonger ({ name, file, usual, timeoutSeconds, settings }) {
  const wanted = { ...usual, ...given(name, Object.keys(usual)) }
  wanted.seed ??= String(Date.now() % 1_000_000_000)
  close(await run())

  async function run () {
    const faults = await makeReady()
    if (faults.length > 0) return { faults }
    Object.assign(process.env, { SEED: wanted.seed }, settings(wanted))
    say(`npm run ${name} for ${wanted.minutes} minutes; npm run ${name} -- --seed ${wanted.seed} takes this run again ...`)
    return await runTapTelling(line => { console.log(`  ${line}`) }, '--disable-coverage', `--timeout=${timeoutSeconds(Number(wanted.minutes))}`, '--jobs=1', file)
  }
}

/** What was asked for on the command line, or else in the environment. */
function given (name, names) {
  try {
    const { values } = parseArgs({ options: Object.fromEntries(names.map(option => [option, { type: 'string' }])) })
    const { SEED } = process.env
    const all = { ...(SEED !== undefined && { seed: SEED }), ...values }
    const wrong = Object.entries(all).find(([, value]) => !/^[1-9][0-9]{0,8}$/.test(value))
    if (wrong !== undefined) throw new Error(`expected a whole number above 0 for ${wrong[0]}, got ${wrong[1] === '' ? 'nothing' : wrong[1]}`)
    return all
  } catch (error) {
    return giveUpOn(`${error.message}\nnpm run ${name} -- ${names.map(option => `[--${option} N]`).join(' ')}`)
  }
}
