import { compile } from './compile.js'
import { requireNode } from './ground.js'
import { install } from './install.js'
import { bring, forLongerChecks } from './programs.js'

/** Brings what the longer checks need; the faults that keep them from running. */
export async function makeReady () {
  requireNode()
  const missing = await install()
  if (missing !== undefined) return [missing]
  return (await Promise.all([compile(), bring(forLongerChecks)])).filter(fault => fault !== undefined)
}
