import { join } from 'node:path'
import { type Test } from 'tap'
import { HostileHarness, plainGet } from './hostile-harness.js'
import { type HostileCase, readCases } from './hostile-case.js'
import { type CheckException, runCase } from './run-case.js'

const cases = join(import.meta.dirname, '../../cases')

// Cases that a law overrules; each entry says what holds instead.
const exceptions: Readonly<Record<string, CheckException>> = {
  'p-absolute-form': {
    not: 'cacheable',
    instead: { status: [200], same_as: plainGet('/v1/blocks/by_version/770024') },
    because: 'its own words allow that it is served as the local resource, and what is keyed is what is sent (law ' +
      '1): the block by its path, which is history like any other'
  },
  'j-dup-key': {
    not: 'upstream_sees',
    instead: { status: [400], upstream: 0 },
    because: 'a body that cannot be valid is 400, and what cannot be parsed with certainty is ' +
      'refused (law 1: what is keyed is what is sent): which of two members would a node take?'
  },
  'a-hop': {
    not: 'must_not_share_with',
    instead: {
      status: [200],
      response_has: /^content-type: application\/x-bcs\r$/im,
      same_as: plainGet('/v1/accounts/0xa007c/modules?ledger_version=5', 'Accept: application/x-bcs\r\n')
    },
    because: 'its own words allow that Accept is kept in the key and in what is sent alike; then both requests are ' +
      'one read (law 1: what is keyed is what is sent), and the entry holds BCS'
  }
}

const titleOf = ({ id, expect }: HostileCase): string => `${id}: ${expect}`
const isSlow = ({ check }: HostileCase): boolean => check.slow === true

/** Sends every hostile case to varves with or without the fast path. */
export async function runHostileCases (t: Test, fastPath: boolean): Promise<void> {
  const faults: unknown[] = []
  const note = (fault: unknown): void => {
    faults.push(fault)
  }
  process.on('unhandledRejection', note).on('uncaughtExceptionMonitor', note)
  t.teardown(() => {
    process.off('unhandledRejection', note).off('uncaughtExceptionMonitor', note)
  })
  const files = ['hostile.jsonl', 'own.jsonl'].map(file => ({ file, all: readCases(join(cases, file)) }))
  // Slow cases wait for a timeout of varve. They run beside the others with their own upstream, since the others count
  // requests.
  const slowHarness = await HostileHarness.start(t, fastPath)
  const slow = files.flatMap(({ all }) => all.filter(isSlow)).map(hostile => ({
    hostile,
    exchange: slowHarness.send(hostile.raw, hostile)
  }))
  const benches = [slowHarness]
  for (const { file, all } of files) {
    const bench = await HostileHarness.start(t, fastPath)
    benches.push(bench)
    await t.test(file, async t => {
      for (const hostile of all.filter(one => !isSlow(one))) {
        await t.test(titleOf(hostile), async t => {
          await runCase(t, bench, hostile, { exception: exceptions[hostile.id] })
        })
      }
    })
  }
  for (const { hostile, exchange } of slow) {
    await t.test(titleOf(hostile), async t => {
      await runCase(t, slowHarness, hostile, { exchange })
    })
  }
  await t.test('nothing is left behind', async t => {
    for (const bench of benches) await bench.checkEnd(t)
    t.same(faults, [], 'no rejected promise went unhandled')
    const ids = files.flatMap(({ all }) => all.map(({ id }) => id))
    t.same(Object.keys(exceptions).filter(id => !ids.includes(id)), [], 'every exception belongs to a case')
  })
}
