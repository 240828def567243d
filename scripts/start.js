import { parseArgs } from 'node:util'
import { pathToFileURL } from 'node:url'
import { cli, compile } from './compile.js'
import { at, giveUpOn, requireNode } from './ground.js'
import { install } from './install.js'

requireNode()
giveUpOn(await install())
giveUpOn(await compile())

// Runs in this very process, so that signals reach the server and its exit code is the exit code.
const given = process.argv.slice(2)
process.argv = [process.execPath, at(cli), 'serve', ...await namesNoUpstream(given) ? ['--sandbox'] : [], ...given]
await import(pathToFileURL(at(cli)).href)

/** Whether neither flag, environment nor file says where data comes from. */
async function namesNoUpstream (args) {
  if ((process.env.VARVE_SANDBOX ?? '') !== '') return false
  const text = { type: 'string' }
  const { values: { config, upstream, sandbox } } = parseArgs({
    args,
    strict: false,
    options: {
      config: text,
      upstream: { ...text, multiple: true },
      sandbox: { type: 'boolean' }
    }
  })
  if (upstream !== undefined || sandbox !== undefined) return false
  const { loadConfig } = await import(pathToFileURL(at('dist/config/load.js')).href)
  try {
    return loadConfig(process.env, typeof config === 'string' ? { config } : {}).config.upstreams.length === 0
  } catch {
    // Left to serve, which finds the same mistakes and prints them.
    return false
  }
}
