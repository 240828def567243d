import { compile, filesIn } from './compile.js'
import { requireNode, say } from './ground.js'
import { install } from './install.js'
import { bringRedis } from './redis.js'
import { close, runTap } from './tap.js'

requireNode()
close(await check())

async function check () {
  const missing = await install()
  if (missing !== undefined) return { faults: [missing] }
  const faults = (await Promise.all([compile(), bringRedis()])).filter(fault => fault !== undefined)
  if (faults.length > 0) return { faults }

  const files = filesIn('test/long').filter(file => file.endsWith('.test.ts'))
  say(files.length === 0 ? 'there are no longer checks in test/long' : 'running the longer checks ...')
  if (files.length === 0) return {}
  // One at a time: they measure, and must not take each other's time.
  return await runTap('--disable-coverage', '--timeout=600', '--jobs=1', ...files)
}
