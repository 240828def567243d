import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { readPurge } from '../../src/api/purge-request.js'
import { type EntryInterval, keysOf, microCacheKeyOf, type ReadKeys } from '../../src/api/read.js'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { type TierName } from '../../src/cache/tier.js'
import {
  type DrivenTier,
  openDisk,
  openMemory,
  openRedis,
  type OpenTier,
  type Place,
  type Selector
} from '../support/driven-tiers.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import { storedEntryOf } from '../support/redis-tier.js'
import { until } from '../support/until.js'

// Every key begins with the name of the space.
const byKeys = (value: string, text = value): Selector => ({ by: 'key', value: `4.1 ${value}`, text: `4.1 ${text}` })
const entryOf: typeof storedEntryOf = (key, ...rest) => storedEntryOf(`4.1 ${key}`, ...rest)
const blocks = '4.1 json blocks'
const block = (height: number | bigint, first: bigint, last: bigint, family = blocks): StoredEntry =>
  storedEntryOf(`${family} ${height}`, `${family} ${height}`, { validity: { family, first, last } })
const byVersion = (version: bigint, family = blocks): Selector => ({ by: 'version', family, version })
const byHeight = (height: number): Selector => byKeys(`json blocks ${height}`)
const atVersion = (version: bigint): EntryInterval => ({
  family: blocks,
  first: version,
  last: version
})

/** Returns the keys of a read as a client would send it, in the space of these tests. */
function keysOfRead (url: string, body?: object): ReadKeys {
  const purge = readPurge(Buffer.from(JSON.stringify({ method: body === undefined ? 'GET' : 'POST', url, body })))
  if (purge.all || purge.account !== undefined) throw new Error('expected a read')
  return keysOf(purge.read, { name: '4.1' })
}

const highest = 2n ** 64n - 1n
/** Blocks that follow each other, at places where numbers or indexes have an edge. */
const chains = fc.record({
  start: fc.constantFrom(0n, 512n, 1024n, 10_240n, 2n ** 53n, 2n ** 53n + 512n, 2n ** 63n, highest - 8000n),
  step: fc.bigInt(0n, 600n),
  sizes: fc.array(fc.oneof(fc.bigInt(1n, 9n), fc.bigInt(1n, 1200n), fc.constantFrom(511n, 512n, 513n, 1024n)), {
    minLength: 2,
    maxLength: 8
  })
}).map(({ start, step, sizes }) => {
  let first = start + step
  return sizes.map(size => {
    const one = { first, last: first + size > highest ? highest : first + size - 1n }
    first += size
    return one
  }).filter(({ first }) => first <= highest)
})

for (
  const [name, open] of [['memory', openMemory], ['disk', openDisk], ['redis', openRedis]] as const satisfies [
    TierName,
    OpenTier
  ][]
) {
  t.test(name, async t => {
    const opened = async (t: Test, ...entries: StoredEntry[]): Promise<DrivenTier> => {
      const tier = await open(t, 50_000_000)
      t.teardown(async () => {
        await tier.close()
      })
      for (const entry of entries) tier.put(entry)
      await tier.untilStored()
      return tier
    }
    const bodyOf = async (tier: DrivenTier, selector: Selector): Promise<string | undefined> =>
      (await tier.get(selector))?.body.toString()

    t.test('a 200 is found by its value key, a not-found by its text key, byte for byte', async t => {
      const bytes = Buffer.from(Array.from({ length: 5000 }, (_, at) => at % 256))
      const tier = await opened(t, entryOf('value', bytes), entryOf('text', 'x', { status: 404 }))
      t.equal(tier.name, name)
      t.match(await tier.get(byKeys('value', 'text')), { key: '4.1 value', status: 200, body: bytes })
      t.match(await tier.get(byKeys('value', 'other')), { key: '4.1 value' })
      t.match(await tier.get(byKeys('other', 'text')), { key: '4.1 text', status: 404 })
      t.equal(await tier.get(byKeys('other')), undefined)
    })

    t.test('a later put replaces an entry', async t => {
      const tier = await opened(t, entryOf('k', 'old'))
      tier.put(entryOf('k', 'new'))
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

    t.test(`each version of adjacent blocks finds its own block, in any order (${seedTitle})`, async t => {
      const tier = await opened(t)
      let run = 0
      await checkAsync(
        fc.asyncProperty(chains, fc.nat(), async (chain, at) => {
          const family = `4.1 json ${run++}`
          const heightAt = async (version: bigint): Promise<string | undefined> =>
            (await bodyOf(tier, byVersion(version, family)))?.slice(family.length + 1)
          const order = [...chain.keys()].map(nth => (nth + at) % chain.length)
          for (const nth of order) tier.put(block(nth, chain[nth]?.first ?? 0n, chain[nth]?.last ?? 0n, family))
          await tier.untilStored()
          const check = async (purged?: number): Promise<void> => {
            for (const [nth, { first, last }] of chain.entries()) {
              for (const version of [first, (first + last) / 2n, last]) {
                t.equal(await heightAt(version), nth === purged ? undefined : String(nth), `${version}`)
              }
            }
            for (const beside of [(chain[0]?.first ?? 0n) - 1n, (chain.at(-1)?.last ?? highest) + 1n]) {
              if (beside >= 0n && beside <= highest) t.equal(await heightAt(beside), undefined)
            }
          }
          await check()
          const purged = at % chain.length
          const { first = 0n, last = 0n } = chain[purged] ?? {}
          const version = (first + last) / 2n
          await tier.drop({ keys: [], intervals: [{ family, first: version, last: version }] })
          await check(purged)
        }),
        10
      )
    })

    t.test('of blocks that share a version the later one is found, for each of its versions', async t => {
      const tier = await opened(t)
      const lies = [[505, 505], [500, 500], [509, 509], [500, 2000], [505, 2000], [0, 505], [0, 3000]] as const
      for (const [at, [first, last]] of lies.entries()) {
        const family = `4.1 json ${at}`
        tier.put(block(9, BigInt(first), BigInt(last), family))
        await tier.untilStored()
        tier.put(block(50, 500n, 509n, family))
        await tier.untilStored()
        for (let version = 500n; version < 510n; version++) {
          t.equal(
            await bodyOf(tier, byVersion(version, family)),
            `${family} 50`,
            `${version} after ${first} to ${last}`
          )
        }
      }
    })

    t.test('a block that is stored again with another interval is found by that interval alone', async t => {
      const tier = await opened(t, block(1, 10n, 19n), block(1, 30n, 39n))
      t.equal(await tier.get(byVersion(12n)), undefined)
      t.ok(await tier.get(byVersion(32n)))
      for (const stored of [block(2, 35n, 49n), block(1, 30n, 39n), block(1, 30n, 39n)]) {
        tier.put(stored)
        await tier.untilStored()
      }
      t.equal((await tier.get(byVersion(35n)))?.key, `${blocks} 1`, 'the later one')
      tier.put(entryOf('json blocks 1', 'no block'))
      await tier.untilStored()
      t.equal(await tier.get(byVersion(32n)), undefined, 'nor by an entry without an interval')
    })

    t.test('a block with more versions than any chain has takes little room in an index', async t => {
      const tier = await opened(t, block(1, 0n, 70_000n))
      t.equal(await tier.get(byVersion(69_999n)) !== undefined, name !== 'redis')
      t.same((await tier.places()).filter(({ isIndex }) => isIndex), [])
    })

    t.test('an entry lives as long as it was put for, and no longer', async t => {
      const tier = await opened(t)
      tier.put(entryOf('long', 'x'), 60_000)
      tier.put(entryOf('never', 'x'), 0)
      tier.put(entryOf('short', 'x'), 20)
      tier.put(block(1, 10n, 19n), 20)
      await tier.untilStored()
      t.equal(await tier.get(byKeys('never')), undefined)
      for (const selector of [byKeys('short'), byVersion(15n), byHeight(1)]) {
        await until(async () => await tier.get(selector) === undefined, 'the entry has expired')
      }
      t.ok(await tier.get(byKeys('long')))
    })

    t.test('an invalidation removes entries by key and by version, and nothing else', async t => {
      const tier = await opened(
        t,
        entryOf('a', 'x'),
        entryOf('b', 'x'),
        block(1, 10n, 19n),
        block(2, 20n, 29n)
      )
      const intervals = [atVersion(15n), atVersion(77n)]
      await tier.drop({ keys: ['4.1 a', '4.1 never there'], intervals })
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
      const entries = [entryOf('a', 'x'), block(1, 10n, 19n)]
      const selectors = [byKeys('a'), byVersion(15n)]
      for (const entry of entries) tier.put(entry)
      await tier.drop({ keys: ['4.1 a'], intervals: [atVersion(19n)] })
      await tier.untilStored()
      for (const selector of selectors) t.equal(await tier.get(selector), undefined)
      for (const entry of entries) tier.put(entry)
      await tier.untilStored()
      for (const selector of selectors) t.ok(await tier.get(selector))
    })

    t.test('an invalidation says if the tier had any of it', async t => {
      const tier = await opened(t, entryOf('a', 'x'), block(1, 10n, 19n))
      const whats = [
        { keys: ['4.1 a'], intervals: [] },
        { keys: [], intervals: [atVersion(19n)] }
      ]
      for (const what of whats) t.equal(await tier.drop(what), true)
      for (const what of whats) t.equal(await tier.drop(what), false)
      tier.put(entryOf('a', 'x'))
      t.equal(await tier.drop({ keys: ['4.1 a'], intervals: [] }), true, 'also on its way into the tier')
    })

    t.test('a purge of an account covers all that can depend on it, and nothing else', async t => {
      const [account, view] = [`0x${'a'.padStart(64, '0')}`, {
        function: '0x1::a::b',
        type_arguments: [],
        arguments: []
      }]
      const item = (key: string): object => ({ key_type: '0x1::string::String', value_type: 'u64', key })
      const wanted = [
        keysOfRead('/v1/accounts/0xa?ledger_version=5').value,
        keysOfRead(`/v1/accounts/0xa/resource/0x1::a::B%3C${'0x1::a::C,'.repeat(90)}u8%3E?ledger_version=5`).value,
        // Memory alone has moving reads.
        ...name === 'memory' ? [microCacheKeyOf(keysOfRead('/v1/accounts/0xa/resources'))] : [],
        keysOfRead('/v1/tables/0xa/item?ledger_version=5', item('x')).text,
        keysOfRead('/v1/tables/0xa/item?ledger_version=5', item('x'.repeat(600))).value,
        keysOfRead('/v1/view?ledger_version=5', view).value
      ]
      const others = [
        keysOfRead('/v1/accounts/0xab/resource/0xa::a::B?ledger_version=5').value,
        keysOfRead('/v1/tables/0x1a/item?ledger_version=5', item('x'.repeat(600))).value,
        keysOfRead('/v1/transactions/by_version/10').value,
        keysOfRead('/v1/blocks/by_height/10').value
      ]
      const tier = await opened(t, ...[...wanted, ...others].map(key => storedEntryOf(key, 'x')))
      const foundIn = async (tier: DrivenTier, keys: readonly string[]): Promise<number> =>
        (await Promise.all(keys.map(async key => await tier.get({ by: 'key', value: key, text: key })))).filter(Boolean)
          .length
      t.same([await foundIn(tier, wanted), await foundIn(tier, others)], [wanted.length, others.length])
      const purge = { keys: [], intervals: [], account }
      t.equal(await tier.drop(purge), true)
      t.same([await foundIn(tier, wanted), await foundIn(tier, others)], [0, others.length])
      const onTheirWay = wanted.map(key => storedEntryOf(key, 'before'))
      for (const entry of onTheirWay) tier.put(entry)
      t.equal(await tier.drop(purge), true)
      await tier.untilStored()
      t.equal(await foundIn(tier, wanted), 0)
      await tier.close()
      const next = await tier.reopen()
      t.same(
        [await foundIn(next, wanted), await foundIn(next, others)],
        [0, name === 'memory' ? 0 : others.length],
        'in the next process'
      )
      for (const key of wanted) next.put(storedEntryOf(key, 'after'))
      await next.untilStored()
      t.equal(await foundIn(next, wanted), wanted.length)
      await next.close()
    })

    t.test('a tier without room drops entries, and never returns part of one', async t => {
      const tier = await open(t, 400_000)
      // Random bytes, which compression cannot shrink.
      const bodies = Array.from({ length: 500 }, () => randomBytes(8192))
      for (const [at, body] of bodies.entries()) {
        tier.put(entryOf(String(at), body))
        if (at % 100 === 99) await tier.untilStored()
      }
      const found = await Promise.all(bodies.map(async (_, at) => (await tier.get(byKeys(String(at))))?.body))
      t.ok(found.every((body, at) => body === undefined || body.equals(bodies[at] ?? Buffer.alloc(0))))
      const count = found.filter(body => body !== undefined).length
      t.ok(count > 0 && count < bodies.length, `${count} of ${bodies.length} found`)
    })

    t.test('closing finishes pending writes, so a tier that outlives the process has them', async t => {
      const tier = await opened(t)
      for (const entry of [entryOf('a', 'x'), block(1, 10n, 19n)]) tier.put(entry)
      await tier.close()
      const next = await tier.reopen()
      const outlives = name !== 'memory'
      for (const selector of [byKeys('a'), byVersion(15n)]) {
        t.equal(await next.get(selector) !== undefined, outlives)
      }
      if (!outlives) t.equal(await tier.get(byKeys('a')), undefined, 'and memory is free')
    })

    // Nothing but this process can reach its memory.
    if (name === 'memory') return

    t.test('damage at any byte of an entry is a counted miss, and hides no other', async t => {
      const tier = await opened(t, entryOf('a', 'x'))
      const [place] = await tier.places()
      const intact = await place?.read() ?? Buffer.alloc(0)
      tier.put(entryOf('b', 'y', { status: 404 }))
      await tier.untilStored()
      for (let at = 0; at < intact.length; at++) {
        const [flipped, counted] = [Buffer.from(intact), tier.corrupt()]
        flipped[at] = (flipped[at] ?? 0) ^ 1 << at % 8
        for (const damaged of [flipped, intact.subarray(0, at)]) {
          await place?.write(damaged)
          t.equal((await tier.get(byKeys('a', 'b')))?.key, '4.1 b', `byte ${at}`)
        }
        // A read that takes too long on a busy machine counts nothing.
        t.ok(tier.corrupt() > counted && tier.corrupt() <= counted + 2, `byte ${at}`)
      }
    })

    t.test('losing or damaging any stored value or index is a miss at most, until the next put', async t => {
      const entries = [entryOf('a', 'x'), block(1, 1000n, 1500n)]
      const selectors = [byKeys('a'), byVersion(1200n), byHeight(1)]
      const bodies = ['x', `${blocks} 1`, `${blocks} 1`]
      const tier = await opened(t, ...entries)
      const harms = [
        async (place: Place) => {
          await place.remove()
        },
        ...[
          (bytes: Buffer) => Buffer.concat([bytes, bytes]),
          (bytes: Buffer) => bytes.subarray(0, -1),
          (bytes: Buffer) => Buffer.concat([Buffer.from([1]), bytes.subarray(1)]),
          () => randomBytes(100)
        ].map(change => async (place: Place) => {
          await place.write(change(await place.read()))
        })
      ]
      const places = await tier.places()
      for (const [index, place] of places.entries()) {
        const moved = [1, 2, 3].map(step => async (to: Place) => {
          await to.write(await places[(index + step) % places.length]?.read() ?? Buffer.alloc(0))
        })
        for (const [at, harm] of [...harms, ...moved].entries()) {
          await harm(place)
          for (const [nth, selector] of selectors.entries()) {
            t.ok([undefined, bodies[nth]].includes(await bodyOf(tier, selector)), `${place.name} ${at}`)
          }
          for (const entry of entries) tier.put(entry)
          await tier.untilStored()
          for (const selector of selectors) t.ok(await tier.get(selector), `${place.name} ${at}, put again`)
        }
      }
      const index = places.filter(({ isIndex }) => isIndex)
      if (index.length === 0) return
      for (const place of index) await place.remove()
      const left = await Promise.all(selectors.map(async selector => await bodyOf(tier, selector)))
      t.same(left, ['x', undefined, undefined], 'what a purge could not find is not served')
    })
  })
}
