import { compile } from './compile.js'
import { giveUpOn, requireNode, say } from './ground.js'
import { install } from './install.js'
import { bringRedis } from './redis.js'
import { close, runTapTelling } from './tap.js'

const usual = { minutes: 30, seed: undefined }

requireNode()
const asked = readArguments(process.argv.slice(2))
giveUpOn(asked.fault)
close(await soak(asked))

async function soak ({ minutes, seed }) {
  const missing = await install()
  if (missing !== undefined) return { faults: [missing] }
  const faults = (await Promise.all([compile(), bringRedis()])).filter(fault => fault !== undefined)
  if (faults.length > 0) return { faults }

  process.env.SOAK_SECONDS = String(60 * minutes)
  if (seed !== undefined) process.env.SEED = String(seed)
  say(`a soak of ${minutes} minutes ...`)
  // On a machine that has other things to do it may take three times as long.
  const timeoutSeconds = 3 * 60 * minutes + 180
  return await runTapTelling(line => { console.log(`  ${line}`) }, '--disable-coverage', `--timeout=${timeoutSeconds}`, 'test/long/soak.test.ts')
}

/** What was asked for, or the one sentence that says why it cannot be done. */
function readArguments (argv) {
  const asked = { ...usual }
  for (let at = 0; at < argv.length; at += 2) {
    const name = argv[at].replace(/^--/, '')
    const value = argv[at + 1] ?? ''
    if (!argv[at].startsWith('--') || !Object.hasOwn(usual, name)) return { fault: `unknown argument ${argv[at]}: expected --minutes N, --seed N` }
    if (!/^[1-9][0-9]{0,8}$/.test(value)) return { fault: `${argv[at]} expects a whole number above 0, got ${value === '' ? 'nothing' : value}` }
    asked[name] = Number(value)
  }
  return asked
}
