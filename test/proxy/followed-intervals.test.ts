import fc from 'fast-check'
import t from 'tap'
import { keysOf, stateFamilyOf } from '../../src/api/read.js'
import { makeEntry } from '../../src/cache/entry.js'
import { Follower } from '../../src/follow/follower.js'
import { LedgerKnowledge } from '../../src/follow/ledger-knowledge.js'
import { lookUpEntryAt } from '../../src/proxy/followed-reads.js'
import { stampedAt, transactionAt } from '../support/tail.js'
import { check, seedTitle } from '../support/properties.js'
import { contextAt, readOfTarget } from '../support/proxy-context.js'

const latest = readOfTarget('/v1/accounts/0x42')
const key = (latest.endpoint.dependsOn?.(latest) ?? [])[0]?.digest ?? 0n

type Step =
  | { readonly kind: 'append', readonly isTouched: boolean }
  | { readonly kind: 'fill' | 'look', readonly version: number }
  | { readonly kind: 'forget' | 'restart' | 'evict' }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('append' as const), isTouched: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('fill' as const, 'look' as const), version: fc.nat(6) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('look' as const), version: fc.nat(6) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('forget' as const, 'restart' as const, 'evict' as const) })
  }
)

const worlds = fc.array(fc.boolean(), { minLength: 7, maxLength: 7 })

t.test(`no order of fills, pages, evictions and look-ups serves a wrong state (${seedTitle})`, async t => {
  const { context } = contextAt(t, 'http://127.0.0.1:1')
  context.tracker.learn(stampedAt(9).position, 'x-aptos-')
  const { chain } = context.tracker
  if (chain === undefined) throw new Error('no chain')
  const family = stateFamilyOf(latest, chain) ?? ''
  let hits = 0
  check(
    fc.property(fc.array(step, { maxLength: 24 }), worlds, (steps, touches) => {
      context.memory.clear()
      const follower = new Follower({
        now: () => 0,
        maxAgeMs: 250,
        isServing: true,
        servedVersion: () => undefined,
        onServedHead: () => {},
        onState: () => {}
      }, new LedgerKnowledge(2))
      // Value of the state: the number of touches up to a version.
      const valueAt = (version: number): string => String(touches.slice(0, version + 1).filter(Boolean).length)
      let head = 0
      const begin = (): void => {
        follower.apply({ begins: true, transactions: [transactionAt(head)], stamped: undefined, sentAtMs: 0 })
      }
      begin()
      for (const each of steps) {
        switch (each.kind) {
          case 'append':
            if (head === 6) break
            head++
            follower.apply({
              begins: false,
              transactions: [transactionAt(head, touches[head] === true ? [key, 5n] : [5n, 6n])],
              stamped: undefined,
              sentAtMs: 0
            })
            break
          case 'fill': {
            const version = BigInt(each.version)
            context.memory.put(makeEntry({
              key: keysOf({ ...latest, ledgerVersion: version }, chain).value,
              status: 200,
              contentType: 'application/json',
              body: Buffer.from(valueAt(each.version)),
              cursorAndGasHeaders: [],
              release: undefined,
              validity: { family, first: follower.unchangedSince(version, [key]), last: version },
              dependencies: [key]
            }))
            break
          }
          case 'look': {
            const entry = lookUpEntryAt(context, follower, latest, family, BigInt(each.version))
            if (entry === undefined) break
            hits++
            if (entry.body.toString() !== valueAt(each.version)) return false
            break
          }
          case 'forget':
            follower.clear()
            begin()
            break
          case 'restart':
            begin()
            break
          case 'evict':
            context.memory.clear()
        }
      }
      return true
    }),
    2000
  )
  t.ok(hits > 200, `${hits} hits`)
})
