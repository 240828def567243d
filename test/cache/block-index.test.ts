import fc from 'fast-check'
import t from 'tap'
import { BlockIndex } from '../../src/cache/block-index.js'
import { makeEntry, type Entry } from '../../src/cache/entry.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { check, seedTitle } from '../support/properties.js'

const nothing = { wrote: () => {}, evicted: () => {} }

function block (first: bigint, last: bigint, height: bigint, blockIndexKey = 'json'): Entry {
  return makeEntry({
    key: `${blockIndexKey} ${height}`,
    status: 200,
    contentType: 'application/json',
    body: Buffer.from(`${blockIndexKey} ${height}`),
    perResponseHeaders: [],
    release: undefined,
    block: { blockIndexKey, first, last }
  })
}

t.test('a version finds the block that contains it, and no other', async t => {
  const memory = new MemoryTier(1e6, nothing, () => 0)
  const high = 2n ** 63n
  for (
    const [first, last, height] of [[10n, 19n, 1n], [20n, 20n, 2n], [30n, 12_029n, 4n], [high, high + 1n, 9n]] as const
  ) memory.put(block(first, last, height))
  const heightAt = (version: bigint): string | undefined => memory.getBlock('json', version)?.body.toString()
  t.same([9n, 10n, 19n, 20n, 21n, 29n, 30n, 12_029n, 12_030n].map(heightAt), [
    undefined,
    'json 1',
    'json 1',
    'json 2',
    undefined,
    undefined,
    'json 4',
    'json 4',
    undefined
  ])
  t.same(
    [high - 1n, high, high + 1n, high + 2n].map(heightAt),
    [undefined, 'json 9', 'json 9', undefined],
    'also above 2^53'
  )
  t.equal(memory.getBlock('bcs', 10n), undefined, 'another block family has no entry')
})

t.test('the index has one record per entry, and none for evicted or replaced entries', async t => {
  const memory = new MemoryTier(20_000, nothing, () => 0)
  for (let at = 0n; at < 500n; at++) memory.put(block(at * 10n, at * 10n + 9n, at))
  t.ok(memory.entries < 20)
  t.equal(memory.blocks, memory.entries)
  t.equal(memory.getBlock('json', 5n), undefined)
  t.ok(memory.getBlock('json', 4999n))
  memory.put(block(4990n, 4999n, 499n))
  t.equal(memory.blocks, memory.entries, 'the same block read again')
})

t.test('an expired block is not found by its versions', async t => {
  let now = 0
  const memory = new MemoryTier(1e6, nothing, () => now)
  memory.put({ ...block(0n, 9n, 1n), expiresAtMs: 5 })
  t.ok(memory.getBlock('json', 3n))
  now = 5
  t.equal(memory.getBlock('json', 3n), undefined)
  t.same([memory.entries, memory.blocks], [0, 0])
})

t.test('of two blocks that share a version, the older entry is evicted as wrong', async t => {
  const memory = new MemoryTier(1e6, nothing, () => 0)
  for (const [first, last, height] of [[0n, 9n, 1n], [10n, 19n, 2n], [20n, 29n, 3n]] as const) {
    memory.put(block(first, last, height))
  }
  memory.put(block(5n, 15n, 7n))
  t.same([4n, 5n, 15n, 16n, 20n].map(version => memory.getBlock('json', version)?.body.toString()), [
    undefined,
    'json 7',
    'json 7',
    undefined,
    'json 3'
  ])
  t.same([memory.entries, memory.blocks], [2, 2])
})

t.test(`the index finds what a plain list finds after any puts and deletes (${seedTitle})`, async () => {
  const range = fc.tuple(fc.nat(200), fc.nat(12), fc.boolean())
  check(fc.property(fc.array(range, { maxLength: 60 }), steps => {
    const index = new BlockIndex()
    let plain: Array<{ first: bigint, last: bigint, key: string }> = []
    for (const [at, size, isRemoved] of steps) {
      const [first, last] = [BigInt(at), BigInt(at + size)]
      const overlapping = plain.filter(one => one.first <= last && one.last >= first)
      if (JSON.stringify(index.overlapping('a', first, last)) !== JSON.stringify(overlapping.map(({ key }) => key))) {
        return false
      }
      if (isRemoved) {
        index.remove('a', first)
        plain = plain.filter(one => one.first !== first)
      } else if (overlapping.length === 0) {
        index.add('a', { first, last, key: `${at}+${size}` })
        plain = [...plain, { first, last, key: `${at}+${size}` }].sort((a, b) => Number(a.first - b.first))
      }
      for (let version = 0n; version < 215n; version += 3n) {
        if (index.find('a', version) !== plain.find(one => one.first <= version && version <= one.last)?.key) {
          return false
        }
      }
      if (index.size !== plain.length) return false
    }
    return true
  }))
})
