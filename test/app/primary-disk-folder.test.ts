import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openFolder } from '../../src/app/disk-folder.js'
import { LocalDiskFolder } from '../../src/app/local-disk-folder.js'
import { type FolderToWorker, WorkerDiskFolder } from '../../src/app/worker-disk-folder.js'
import { PrimaryDiskFolder } from '../../src/app/primary-disk-folder.js'
import { DiskFiles } from '../../src/cache/disk-files.js'
import { DiskTier } from '../../src/cache/disk-tier.js'
import { type EntrySelector } from '../../src/cache/tier.js'
import { type GenerationRecord } from '../../src/chain/generation-record.js'
import { Metrics } from '../../src/metrics/metrics.js'
import { type ToWorker } from '../../src/workers/messages.js'
import { storedEntryOf } from '../support/redis-tier.js'
import { until } from '../support/until.js'

const { stamped: head } = storedEntryOf('', '')
const knownBy = (...hashes: string[]): GenerationRecord => ({
  anchors: hashes.map((hash, at) => ({ height: BigInt(at + 1), hash })),
  head
})
const chain = { id: 4, generation: 1 }
const maxBytes = 1024 ** 2

/** Opens a folder as a primary process does; each worker gets its messages as copies, as from another process. */
async function shared (t: Test): Promise<{ path: string, folder: PrimaryDiskFolder, worker: () => WorkerDiskFolder }> {
  const [path, metrics] = [await mkdtemp(join(tmpdir(), 'varve-shared-')), new Metrics()]
  const workers: WorkerDiskFolder[] = []
  const deliver = (to: WorkerDiskFolder, message: ToWorker): void => {
    to.onMessage(structuredClone(message) as FolderToWorker)
  }
  const open = await openFolder(path, pino({ level: 'silent' }), metrics)
  const folder = new PrimaryDiskFolder(new LocalDiskFolder(open, maxBytes / 1024 ** 3, metrics), message => {
    for (const worker of workers) deliver(worker, message)
  })
  t.teardown(async () => {
    await folder.stop()
    await rm(path, { recursive: true })
  })
  await until(() => folder.state.size.isCounted, 'the files are counted')
  return {
    path,
    folder,
    worker: () => {
      const worker = new WorkerDiskFolder(structuredClone(folder.state), sent => {
        const message = structuredClone(sent)
        if (message.kind === 'disk_used') folder.use(message)
        if (message.kind === 'disk_change') {
          folder.change(message, answer => {
            deliver(worker, answer)
          })
        }
      })
      workers.push(worker)
      return worker
    }
  }
}

/** Opens the tier of a worker. */
function tierOf ({ path, room }: WorkerDiskFolder): DiskTier {
  const wallClockMs = (): number => Date.now()
  return new DiskTier({
    files: new DiskFiles({ path, maxEntryBytes: Infinity, wallClockMs, onError: () => {} }),
    room,
    maxEntryBytes: Infinity,
    metrics: { wrote: () => {}, foundCorrupt: () => {}, dropped: () => {} },
    holdQueued: () => ({ release: () => {} }),
    now: wallClockMs,
    wallClockMs,
    space: () => 'space',
    renewSpace: async () => {}
  })
}

t.test('of two workers that claim a generation one gets it, and the other sees it at once', async t => {
  const { worker } = await shared(t)
  const [one, other] = [worker(), worker()]
  const claims = await Promise.all([one, other].map(async ({ registry }) => await registry.claim(4, 1, knownBy('a'))))
  t.same(claims, [true, false])
  t.same(await other.registry.read(4), { generations: new Map([[1, knownBy('a')]]) })
  const space = one.registry.records.spaceOf(chain, knownBy('a'))
  t.ok(space)
  for (const each of [other, worker()]) t.equal(each.registry.records.spaceOf(chain, knownBy('a')), space)
  t.same(await other.registry.rememberedUpstreams(), [])
})

t.test('a space that one worker renews is that of all, whatever the others save meanwhile', async t => {
  const { path, worker } = await shared(t)
  const [one, other] = [worker(), worker()]
  await one.registry.update(chain, knownBy('a'))
  const space = one.registry.records.spaceOf(chain, knownBy('a'))
  const { revision } = other.registry.records
  // The other one does not know of the renewal yet when it saves.
  await Promise.all([one.registry.renew(chain, knownBy('a')), other.registry.update(chain, knownBy('a', 'b'))])
  const renewed = one.registry.records.spaceOf(chain, knownBy('a'))
  t.not(renewed, space)
  t.equal(other.registry.records.spaceOf(chain, knownBy('a')), renewed)
  t.ok(other.registry.records.revision > revision, 'what was read from the records is read again')
  await rm(join(path, 'generations'), { recursive: true })
  await t.rejects(one.registry.renew(chain, knownBy('a')), /ENOENT/)
  t.equal(one.registry.records.spaceOf(chain, knownBy('a')), renewed)
})

t.test('each worker finds what another wrote, and what one purges no worker finds', async t => {
  const { folder, worker } = await shared(t)
  const [one, other] = [tierOf(worker()), tierOf(worker())]
  const entry = storedEntryOf('a', 'x')
  const selector: EntrySelector = { by: 'key', keys: { value: 'a', text: 'a', intervalFamily: undefined } }
  for (const [writer, reader] of [[one, other], [other, one]] as const) {
    writer.put({ stored: entry, ttlMs: undefined })
    await writer.waitUntilIdle()
    t.equal((await reader.get(selector))?.stored.body.toString(), 'x')
    await until(() => reader.status.entries === 1, 'the reader counts it too')
    t.match(reader.status, { isShared: true })
    await reader.invalidate({ keys: ['a'], intervals: [] })
    for (const tier of [one, other]) t.equal(await tier.get(selector), undefined)
  }
  t.match(folder.status, { entries: 0 })
})

t.test('what one worker writes counts for all, and at the limit none writes any more', async t => {
  const { folder, worker } = await shared(t)
  const [one, other] = [worker(), worker()]
  one.room.add(maxBytes, 2)
  other.room.add(0, 0)
  await until(() => other.room.bytes === maxBytes && other.room.entries === 2, 'the other worker knows')
  t.same(folder.status, { bytes: maxBytes, entries: 2, maxBytes })
  for (const { room } of [one, other]) {
    t.match(room, { isShared: true, maxBytes })
    t.ok(room.has(maxBytes / 100))
    t.notOk(room.has(maxBytes / 10))
  }
})

t.test('the files that a killed worker was writing are removed, and no other worker\'s', async t => {
  const { path, folder } = await shared(t)
  for (const name of ['12-1', '12-2', '123-1', 'size']) await writeFile(join(path, 'tmp', name), 'x')
  await folder.removeTemporaryFilesOf(12)
  t.same((await readdir(join(path, 'tmp'))).sort(), ['123-1', 'size'])
})
