import { compileTests } from './compile-tests.js'
import { requireNode } from './ground.js'
import { install } from './install.js'
import { bring, forLongerChecks } from './programs.js'

/** Prepares checks: packages, build and programs; returns the errors. */
export async function makeReady (programs = forLongerChecks) {
  requireNode()
  const built = install().then(async missing => missing ?? await compileTests())
  return (await Promise.all([built, bring(programs)])).filter(fault => fault !== undefined)
}
