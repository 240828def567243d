import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { type EntryInterval } from '../../src/api/read.js'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { type EntrySelector, type TierName } from '../../src/cache/tier.js'
import { type DrivenTier, openDisk, openMemory, openRedis, type OpenTier } from '../support/driven-tiers.js'
import { storedEntryOf } from '../support/redis-tier.js'
import { until } from '../support/until.js'

const byKeys = (value: string, text = value): EntrySelector => ({
  by: 'key',
  keys: { value, text, intervalFamily: undefined }
})
const blocks = '4.1 json blocks'
const block = (height: number, first: bigint, last: bigint, family = blocks): StoredEntry =>
  storedEntryOf(`${family} ${height}`, `${family} ${height}`, { validity: { family, first, last } })
const byVersion = (version: bigint, family = blocks): EntrySelector => ({ by: 'version', family, version })
const byHeight = (height: number): EntrySelector => ({
  by: 'key',
  keys: { value: `${blocks} ${height}`, text: `${blocks} ${height}`, intervalFamily: blocks }
})
const atVersion = (version: bigint): EntryInterval => ({
  family: blocks,
  first: version,
  last: version
})

for (
  const [name, open] of [['memory', openMemory], ['disk', openDisk], ['redis', openRedis]] as const satisfies [
    TierName,
    OpenTier
  ][]
) {
  t.test(name, async t => {
    const opened = async (t: Test, ...entries: StoredEntry[]): Promise<DrivenTier> => {
      const tier = await open(t)
      t.teardown(async () => {
        await tier.close()
      })
      for (const entry of entries) tier.put(entry)
      await tier.untilStored()
      return tier
    }
    const bodyOf = async (tier: DrivenTier, selector: EntrySelector): Promise<string | undefined> =>
      (await tier.get(selector))?.body.toString()

    t.test('a 200 is found by its value key, a not-found by its text key, byte for byte', async t => {
      const bytes = Buffer.from(Array.from({ length: 5000 }, (_, at) => at % 256))
      const tier = await opened(t, storedEntryOf('value', bytes), storedEntryOf('text', 'x', { status: 404 }))
      t.equal(tier.name, name)
      t.match(await tier.get(byKeys('value', 'text')), { key: 'value', status: 200, body: bytes })
      t.match(await tier.get(byKeys('value', 'other')), { key: 'value' })
      t.match(await tier.get(byKeys('other', 'text')), { key: 'text', status: 404 })
      t.equal(await tier.get(byKeys('other')), undefined)
    })

    t.test('a later put replaces an entry', async t => {
      const tier = await opened(t, storedEntryOf('k', 'old'))
      tier.put(storedEntryOf('k', 'new'))
      await tier.untilStored()
      t.equal(await bodyOf(tier, byKeys('k')), 'new')
    })

    t.test('a version finds the block that contains it, with its interval, and no other', async t => {
      const high = 2n ** 64n - 1n
      const tier = await opened(
        t,
        block(1, 10n, 19n),
        block(2, 20n, 20n),
        block(4, 30n, 12_029n),
        block(9, high, high),
        block(3, 21n, 29n, '4.1 bcs blocks')
      )
      const found = await Promise.all(
        [9n, 10n, 19n, 20n, 21n, 29n, 30n, 5000n, 12_029n, 12_030n, high - 1n, high].map(async version =>
          (await bodyOf(tier, byVersion(version)))?.slice(blocks.length + 1)
        )
      )
      t.same(found, [undefined, '1', '1', '2', undefined, undefined, '4', '4', '4', undefined, undefined, '9'])
      t.same((await tier.get(byVersion(15n)))?.validity, { family: blocks, first: 10n, last: 19n })
      t.equal((await tier.get(byHeight(4)))?.key, `${blocks} 4`)
      t.equal(await tier.get(byHeight(3)), undefined)
    })

    t.test('where two blocks overlap, the later one is found', async t => {
      const tier = await opened(t, block(1, 0n, 9n), block(2, 10n, 19n))
      tier.put(block(7, 5n, 15n))
      await tier.untilStored()
      for (const version of [5n, 9n, 10n, 15n]) t.equal((await tier.get(byVersion(version)))?.key, `${blocks} 7`)
    })

    t.test('an entry lives as long as it was put for, and no longer', async t => {
      const tier = await opened(t)
      tier.put(storedEntryOf('long', 'x'), 60_000)
      tier.put(storedEntryOf('short', 'x'), 20)
      tier.put(block(1, 10n, 19n), 20)
      await tier.untilStored()
      for (const selector of [byKeys('short'), byVersion(15n), byHeight(1)]) {
        await until(async () => await tier.get(selector) === undefined, 'the entry has expired')
      }
      t.ok(await tier.get(byKeys('long')))
    })

    t.test('an invalidation removes entries by key and by version, and nothing else', async t => {
      const tier = await opened(
        t,
        storedEntryOf('a', 'x'),
        storedEntryOf('b', 'x'),
        block(1, 10n, 19n),
        block(2, 20n, 29n)
      )
      await tier.invalidate({ keys: ['a', 'never there'], intervals: [atVersion(15n), atVersion(77n)] })
      for (
        const selector of [
          byKeys('a'),
          byVersion(10n),
          byHeight(1)
        ]
      ) t.equal(await tier.get(selector), undefined)
      for (const selector of [byKeys('b'), byVersion(20n), byHeight(2)]) {
        t.ok(await tier.get(selector))
      }
    })

    t.test('an invalidation overtakes no put before it and stops no put after it', async t => {
      const tier = await opened(t)
      const entries = [storedEntryOf('a', 'x'), block(1, 10n, 19n)]
      const selectors = [byKeys('a'), byVersion(15n)]
      for (const entry of entries) tier.put(entry)
      await tier.invalidate({ keys: ['a'], intervals: [atVersion(19n)] })
      await tier.untilStored()
      for (const selector of selectors) t.equal(await tier.get(selector), undefined)
      for (const entry of entries) tier.put(entry)
      await tier.untilStored()
      for (const selector of selectors) t.ok(await tier.get(selector))
    })

    t.test('an invalidation says if the tier had any of it', async t => {
      const tier = await opened(t, storedEntryOf('a', 'x'), block(1, 10n, 19n))
      const whats = [
        { keys: ['a'], intervals: [] },
        { keys: [], intervals: [atVersion(19n)] }
      ]
      for (const what of whats) t.equal(await tier.invalidate(what), true)
      for (const what of whats) t.equal(await tier.invalidate(what), false)
      tier.put(storedEntryOf('a', 'x'))
      t.equal(await tier.invalidate({ keys: ['a'], intervals: [] }), true, 'also on its way into the tier')
    })

    t.test('a tier without room drops entries, and never returns part of one', async t => {
      const tier = await opened(t)
      // Random bytes, which compression cannot shrink.
      const bodies = Array.from({ length: 500 }, () => randomBytes(8192))
      for (const [at, body] of bodies.entries()) {
        tier.put(storedEntryOf(String(at), body))
        if (at % 100 === 99) await tier.untilStored()
      }
      const found = await Promise.all(bodies.map(async (_, at) => (await tier.get(byKeys(String(at))))?.body))
      t.ok(found.every((body, at) => body === undefined || body.equals(bodies[at] ?? Buffer.alloc(0))))
      const count = found.filter(body => body !== undefined).length
      t.ok(count > 0 && count < bodies.length, `${count} of ${bodies.length} found`)
    })

    t.test('a damaged entry is a miss, and can be put again', async t => {
      const tier = await opened(t, storedEntryOf('a', 'x'), block(1, 10n, 19n))
      const { damage } = tier
      if (damage === undefined) return
      for (
        const [entry, selector] of [
          [storedEntryOf('a', 'x'), byKeys('a')],
          [block(1, 10n, 19n), byVersion(15n)]
        ] as const
      ) {
        t.ok(await tier.get(selector))
        await damage(entry.key)
        t.equal(await tier.get(selector), undefined)
        tier.put(entry)
        await tier.untilStored()
        t.ok(await tier.get(selector))
      }
    })

    t.test('closing finishes pending writes, so a tier that outlives the process has them', async t => {
      const tier = await opened(t)
      for (const entry of [storedEntryOf('a', 'x'), block(1, 10n, 19n)]) tier.put(entry)
      await tier.close()
      const next = await tier.reopen()
      const outlives = name !== 'memory'
      for (const selector of [byKeys('a'), byVersion(15n)]) {
        t.equal(await next.get(selector) !== undefined, outlives)
      }
      if (!outlives) t.equal(await tier.get(byKeys('a')), undefined, 'and memory is free')
    })
  })
}
