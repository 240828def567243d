import { parseArgs } from 'node:util'
import { pathToFileURL } from 'node:url'
import { cli, compile } from './compile.js'
import { at, giveUpOn, requireNode } from './ground.js'
import { install } from './install.js'

requireNode()
giveUpOn(await install())
giveUpOn(await compile())

// Runs serve in this process, so that signals reach it and its exit code is returned.
const given = process.argv.slice(2)
process.argv = [process.execPath, at(cli), 'serve', ...await namesNoUpstream(given) ? ['--sandbox'] : [], ...given]
await import(pathToFileURL(at(cli)).href)

/** Tests that no flag, environment variable or file configures an upstream. */
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
    // Leaves configuration errors to serve, which reports them.
    return false
  }
}
