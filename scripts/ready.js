import { compileTests } from './compile-tests.js'
import { requireNode } from './ground.js'
import { install } from './install.js'
import { bring, forLongerChecks } from './programs.js'

/** Prepares checks: packages, build and programs; returns the errors. */
export async function makeReady (programs = forLongerChecks) {
  requireNode()
  const missing = await install()
  if (missing !== undefined) return [missing]
  return (await Promise.all([compileTests(), bring(programs)])).filter(fault => fault !== undefined)
}
