import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type GenerationRegistry } from '../../src/chain/generation-registry.js'
import { type GenerationRecord, emptyGenerationRecord } from '../../src/chain/generation-record.js'
import { combineGenerationRegistries } from '../../src/cluster/combined-generation-registry.js'
import { DiskGenerationRegistry } from '../../src/cluster/disk-generation-registry.js'
import { storedEntryOf } from '../support/redis-tier.js'

const { stamped } = storedEntryOf('', '')
const knownBy = (...hashes: string[]): GenerationRecord => ({
  anchors: hashes.map((hash, at) => ({ height: BigInt(at + 1), hash })),
  head: stamped
})
const later = (head: typeof stamped): typeof stamped => ({
  ...head,
  position: { ...head.position, head: { ...head.position.head, version: 1n, timestampUsec: 10n ** 15n } }
})

async function opened (t: Test): Promise<{ path: string, registry: DiskGenerationRegistry, aside: string[] }> {
  const path = t.testdir()
  await mkdir(join(path, 'tmp'))
  const aside: string[] = []
  return { path, registry: await DiskGenerationRegistry.open(path, name => aside.push(name)), aside }
}

t.test('a generation is claimed once, and is there for the next process with its anchors and head', async t => {
  const { path, registry } = await opened(t)
  t.equal(registry.records.lastServed(undefined), undefined)
  t.ok(await registry.claim(4, 1, knownBy('a')))
  t.notOk(await registry.claim(4, 1, knownBy('b')))
  await registry.claim(9, 1, knownBy('c'))
  const next = await DiskGenerationRegistry.open(path, () => {})
  t.same((await next.read(4)).generations, new Map([[1, knownBy('a')]]))
  t.match(next.records.lastServed(undefined), { chainId: 9, generation: 1 })
  t.match(next.records.lastServed(4), { chainId: 4, ...knownBy('a') })
  t.equal(next.records.lastServed(5), undefined)
  t.equal(
    next.records.spaceOf({ id: 4, generation: 1 }, knownBy('a')),
    registry.records.spaceOf({ id: 4, generation: 1 }, knownBy('a'))
  )
  t.same(await next.rememberedUpstreams(), [])
})

t.test('entries belong to a generation only while its record is proven to be of the chain', async t => {
  const { registry } = await opened(t)
  const chain = { id: 4, generation: 1 }
  t.equal(registry.records.spaceOf(chain, knownBy('a')), undefined)
  await registry.update(chain, knownBy('a'))
  const space = registry.records.spaceOf(chain, knownBy('a', 'b'))
  t.ok(space)
  t.equal(registry.records.spaceOf(chain, knownBy('x')), undefined)
  t.equal(registry.records.spaceOf(chain, emptyGenerationRecord), undefined)
  await registry.update(chain, knownBy('a', 'b'))
  t.equal(registry.records.spaceOf(chain, knownBy('a')), space, 'more anchors keep the space')
  await registry.renew(chain, knownBy('a'))
  const renewed = registry.records.spaceOf(chain, knownBy('a'))
  t.not(renewed, space)
  await registry.update(chain, knownBy('x'))
  t.not(registry.records.spaceOf(chain, knownBy('x')), renewed, 'another chain gets an empty space')
  await registry.update({ id: 4, generation: 2 }, { anchors: [], head: stamped })
  t.ok(
    registry.records.spaceOf({ id: 4, generation: 2 }, { anchors: [], head: stamped }),
    'without anchors positions decide'
  )
  t.notOk(registry.records.spaceOf({ id: 4, generation: 2 }, { anchors: [], head: later(stamped) }))
})

t.test('damaged records are set aside under a name that says so, a few at most; old generations go', async t => {
  const { path, registry } = await opened(t)
  for (let generation = 1; generation <= 5; generation++) await registry.update({ id: 4, generation }, knownBy('a'))
  t.same((await readdir(join(path, 'generations'))).sort(), ['4.2', '4.3', '4.4', '4.5'])
  const text = await readFile(join(path, 'generations', '4.5'), 'utf8')
  await writeFile(join(path, 'generations', '4.5'), text.replace('a', 'b'))
  await writeFile(join(path, 'generations', '4.4'), '')
  for (let at = 0; at < 10; at++) await writeFile(join(path, 'generations', `8.${at}`), text)
  const aside: string[] = []
  const next = await DiskGenerationRegistry.open(path, name => aside.push(name))
  t.same([...(await next.read(4)).generations.keys()], [2, 3])
  t.equal(aside.length, 12)
  t.match(aside[0], /^set-aside\/00000001-unreadable-generations-4\.4$/)
  t.equal((await readdir(join(path, 'set-aside'))).length, 8)
})

t.test('beside Redis a number is taken if either has it, and alone it proves what Redis cannot', async t => {
  const { registry } = await opened(t)
  const shared = new Map([[1, knownBy('a')]])
  let isUp = true
  const redis: GenerationRegistry = {
    read: async () => {
      if (!isUp) throw new Error('down')
      return { generations: shared }
    },
    claim: async (_chainId, generation) => isUp && !shared.has(generation),
    rememberedUpstreams: async () => {
      throw new Error('down')
    }
  }
  const both = combineGenerationRegistries(redis, registry)
  t.notOk(await both.claim(4, 1, knownBy('b')))
  t.ok(await both.claim(4, 2, knownBy('b')))
  t.notOk(await both.claim(4, 2, knownBy('b')))
  await registry.update({ id: 4, generation: 1 }, {
    anchors: [...knownBy('a').anchors, { height: 9n, hash: 'n' }],
    head: stamped
  })
  t.equal((await both.read(4)).generations.get(1)?.anchors.length, 3, 'anchors of both')
  await registry.update({ id: 4, generation: 1 }, knownBy('x'))
  t.same((await both.read(4)).generations.get(1), knownBy('a'), 'where they differ Redis decides')
  isUp = false
  t.same([...(await both.read(4)).generations.keys()].sort(), [1, 2])
  await t.rejects(both.read(9), /down/)
  t.same(await both.rememberedUpstreams(), [])
})
