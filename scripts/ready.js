import { compileTests } from './compile-tests.js'
import { requireNode } from './ground.js'
import { install } from './install.js'
import { bring, forLongerChecks } from './programs.js'

/** Prepares checks: packages, build and programs; returns the errors. */
export async function makeReady (programs = forLongerChecks) {
  requireNode()
  // Both wait for the network, so they run beside each other.
  const [missing, absent] = await Promise.all([install(), bring(programs)])
  const fault = missing ?? await compileTests()
  return [fault, absent].filter(fault => fault !== undefined)
}
