import { readFile, stat, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { type EntrySelector } from '../../src/cache/tier.js'
import { type TestDiskTier, openDiskTier } from '../support/disk-tier.js'
import { storedEntryOf } from '../support/redis-tier.js'

const roomBytes = 50_000_000
const family = '4.1 json blocks'
const blockOf = (height: number, first: bigint, last: bigint): StoredEntry =>
  storedEntryOf(`${family} ${height}`, String(height), { validity: { family, first, last } })
const byVersion = (version: bigint): EntrySelector => ({ by: 'version', family, version })

async function opened (t: Test, ...entries: StoredEntry[]): Promise<TestDiskTier> {
  const disk = await openDiskTier(t, t.testdir(), roomBytes)
  for (const stored of entries) disk.tier.put({ stored, ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  return disk
}

t.test('a damaged index is counted, hides its blocks, and is repaired by the next block', async t => {
  const disk = await opened(t, blockOf(1, 10n, 19n))
  const index = disk.files.pathOf('space', `index versions ${family} 0`)
  await writeFile(index, Buffer.concat([await readFile(index), Buffer.from('torn')]))
  t.equal((await disk.tier.get(byVersion(12n)))?.stored.key, `${family} 1`)
  t.equal(disk.counts.corrupt > 0, true)
  disk.tier.put({ stored: blockOf(2, 20n, 29n), ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  const counted = disk.counts.corrupt
  for (const version of [12n, 22n]) t.ok(await disk.tier.get(byVersion(version)))
  t.equal(disk.counts.corrupt, counted, 'the index is whole again')
  const bytes = await readFile(index)
  bytes[0] = 1
  await writeFile(index, bytes)
  t.equal(await disk.tier.get(byVersion(12n)), undefined)
  t.equal(
    await disk.tier.get({ by: 'key', keys: { value: `${family} 1`, text: '', intervalFamily: family } }),
    undefined
  )
  t.ok(await disk.tier.get(byVersion(22n)))
})

t.test('an index with too many records forgets the oldest, whose blocks are then misses', async t => {
  const disk = await opened(t, ...[0, 1].map(at => blockOf(at, 0n, 1000n)))
  for (let at = 2; at < 2051; at++) {
    disk.tier.put({ stored: blockOf(at, BigInt(at % 1000), BigInt(at % 1000)), ttlMs: undefined })
    if (at % 100 === 0) await disk.tier.waitUntilIdle()
  }
  await disk.tier.waitUntilIdle()
  const { size } = await stat(disk.files.pathOf('space', `index versions ${family} 0`))
  t.ok(size <= 2048 * 28, `${size} bytes`)
  t.ok(await disk.tier.get(byVersion(50n)))
  const huge = storedEntryOf(`${family} 7`, 'x', {
    validity: { family, first: 0n, last: 1_000_000n }
  })
  disk.tier.put({ stored: huge, ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  t.equal(await disk.tier.get(byVersion(999_999n)), undefined, 'a block with too many versions is not stored')
})

t.test('a block that is stored with another interval is found by that interval alone', async t => {
  const disk = await opened(t, blockOf(1, 10n, 19n), blockOf(1, 30n, 39n))
  t.equal(await disk.tier.get(byVersion(12n)), undefined)
  t.ok(await disk.tier.get(byVersion(32n)))
  for (const stored of [blockOf(2, 35n, 49n), blockOf(1, 30n, 39n), blockOf(1, 30n, 39n)]) {
    disk.tier.put({ stored, ttlMs: undefined })
    await disk.tier.waitUntilIdle()
  }
  t.equal((await disk.tier.get(byVersion(35n)))?.stored.key, `${family} 1`, 'the later one is found')
})
