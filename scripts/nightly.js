import { parseArgs } from 'node:util'
import { giveUpOn, say, start } from './ground.js'
import { makeReady } from './ready.js'
import { singly, suites } from './suites.js'
import { close, jobs, runTap, sumOf } from './tap.js'

const slow = name => `test/${name}.slow.test.ts`
const minute = 60

/** Checks that are too long for `npm run ci`, with usual minutes and the environment that sets their length. */
const parts = {
  random: { files: () => suites().random, minutes: 10, jobs, env: () => ({ RUNS_FACTOR: '10' }) },
  lies: { files: () => [slow('deceptive/deceptive-upstream'), slow('hostile')], minutes: 2, env: () => ({}) },
  pictures: { files: () => [slow('http/status-pictures')], minutes: 1, env: () => ({}) },
  image: { files: () => [slow('image')], minutes: 3, env: () => ({}) },
  transfers: { files: () => [slow('http/slow-link')], minutes: 5, env: () => ({}) },
  release: { files: () => [slow('release')], minutes: 3, env: () => ({}) },
  fuzz: {
    files: () => [slow('fuzz')],
    minutes: 20,
    env: ({ minutes, requests }) => ({
      FUZZ_MINUTES: `${minutes}`,
      ...(requests !== undefined && { FUZZ_REQUESTS: requests })
    })
  },
  soak: { files: () => [slow('soak')], minutes: 30, env: ({ minutes }) => ({ SOAK_SECONDS: `${minute * minutes}` }) },
  smoke: { files: () => [slow('bench')], minutes: 2, env: () => ({ BENCH_CLAIMS: 'all' }) },
  promises: { run: ['scripts/promises.js'] },
  bench: { run: ['bench/run.js'] }
}

const { names, wanted } = given()
close(await runParts())

async function runParts () {
  const faults = await makeReady()
  if (faults.length > 0) return { faults }
  const runs = []
  for (const name of names) runs.push(await runPart(name, parts[name]))
  return sumOf(runs)
}

async function runPart (name, { files, run, minutes, env, jobs = 1 }) {
  if (run !== undefined) return await runProgram(name, run)
  const lasts = Number(wanted.minutes ?? minutes)
  say(`${name} for about ${lasts} minutes; npm run nightly -- ${name} --seed ${wanted.seed} repeats this run ...`)
  return await runTap(singly(files()), {
    jobs,
    timeoutSeconds: 3 * minute * lasts + 5 * minute,
    env: { SEED: wanted.seed, ...env({ ...wanted, minutes: lasts }) },
    onComment: line => {
      console.log(`  ${line}`)
    }
  })
}

async function runProgram (name, [file, ...args]) {
  say(`${name} ...`)
  const { code } = await start([process.execPath, file, ...args], { stdio: ['ignore', 'inherit', 'inherit'] }).ended
  return { faults: code === 0 ? [] : [`${name} ended with exit code ${code}`] }
}

/** Parses the command line; the default is all parts. */
function given () {
  const usage = `npm run nightly -- [${Object.keys(parts).join('] [')}] [--minutes N] [--requests N] [--seed N]`
  try {
    const option = { type: 'string' }
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { minutes: option, requests: option, seed: option }
    })
    const unknown = positionals.find(name => !Object.hasOwn(parts, name))
    if (unknown !== undefined) {
      throw new Error(`unknown part ${unknown}: expected any of ${Object.keys(parts).join(', ')}`)
    }
    const seed = values.seed ?? process.env.SEED ?? String(Date.now() % 1_000_000_000)
    const wrong = Object.entries({ ...values, seed }).find(([, value]) => !/^[1-9][0-9]{0,8}$/.test(value))
    if (wrong !== undefined) {
      throw new Error(
        `expected a whole number above 0 for --${wrong[0]}, got ${wrong[1] === '' ? 'nothing' : wrong[1]}`
      )
    }
    return { names: positionals.length > 0 ? positionals : Object.keys(parts), wanted: { ...values, seed } }
  } catch (error) {
    return giveUpOn(`${error.message}\n${usage}`)
  }
}
