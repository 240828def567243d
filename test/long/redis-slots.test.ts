import t from 'tap'
import {
  clusterWith,
  errorsOf,
  isTrue,
  isUp,
  marginMs,
  readiness,
  readOn,
  sharesNow,
  timeoutMs,
  waitsAmong,
  writes
} from '../support/redis-faults.js'
import { until } from '../support/until.js'

const hit = 'varve; hit; detail=redis'

t.test('what one replica has read another finds on any node of a cluster, also while a slot moves under its reads', async t => {
  const { cluster, sharers: { other, node, fresh }, targets } = await clusterWith(t, 30)
  const owners = await Promise.all(
    (await cluster.keys('varve:1:*modules*')).map(async key => await cluster.ownerOf(key))
  )
  t.same([...new Set(owners)].sort(), [0, 1, 2], 'entries lie on every node')
  const [moved = ''] = await cluster.keys('varve:1:*modules*')
  const from = await cluster.ownerOf(moved)
  const asked = node.asked.length
  const reading = readOn(t, other, fresh)
  const early = targets.slice(0, 15)
  await cluster.moveSlot(await cluster.slotOf(moved), from, (from + 1) % 3, async () => {
    for (const target of early) t.equal((await other.get(target)).headers['cache-status'], hit)
  })
  for (const target of targets.slice(15)) t.equal((await other.get(target)).headers['cache-status'], hit)
  const { reads, wrong, slowest } = await reading.stop()
  t.equal(wrong, 0)
  t.ok(reads > 10)
  t.equal(node.asked.length, asked + reads, 'the node was asked for what is new alone')
  t.ok(slowest < timeoutMs + marginMs, `the slowest read took ${Math.round(slowest)} ms`)
  t.ok(await isUp(other))
  t.same((await readiness(other)).degraded, [])
})

t.test('a cluster node that is killed while reads run makes no client error, and the rest of the cluster is shared on', async t => {
  const { cluster, sharers, targets } = await clusterWith(t, 45)
  const { one, other, node, fresh } = sharers
  const before = await errorsOf(other)
  const known = Array.from({ length: 45 }, fresh)
  for (const target of known) await one.get(target)
  await until(async () => await writes(one) === targets.length + known.length, 'all is written')
  const keys = await cluster.keys('varve:1:*modules*')
  const ownerOf = async (target: string): Promise<number> =>
    await cluster.ownerOf(keys.find(key => key.includes(target.split('/')[3] ?? '')) ?? '')
  const owners = await Promise.all(known.map(ownerOf))
  const [gone, kept] = [known.filter((_, at) => owners[at] === 1), known.filter((_, at) => owners[at] !== 1)]
  const reading = readOn(t, other, fresh)
  await cluster.killNode(1)
  const asked = node.asked.length
  const lost: string[] = []
  for (const target of targets) {
    const got = await other.get(target)
    isTrue(t, got, target)
    if (got.headers['cache-status'] !== hit) lost.push(target)
  }
  t.ok(lost.length > 0 && lost.length < 30, `${lost.length} of ${targets.length} were on it`)
  t.ok(node.asked.length >= asked + lost.length)
  await until(
    async () => String(await cluster.node(0).client.cluster('NODES')).includes('master,fail '),
    'the others take it for dead'
  )
  const waits = await waitsAmong(t, sharers, 60)
  t.ok(waits <= 3, `${waits} of 60 reads waited for the dead node`)
  t.ok(await isUp(other), 'what is left of the cluster is used')
  const { reads, wrong, slowest } = await reading.stop()
  t.equal(wrong, 0)
  t.ok(reads > 10)
  t.ok(slowest < timeoutMs + marginMs, `the slowest read took ${Math.round(slowest)} ms`)
  t.ok(gone.length > 5)
  for (const target of gone) isTrue(t, await other.get(target), target)
  for (const target of kept) {
    t.equal(
      (await other.get(target)).headers['cache-status'],
      hit,
      'what the others have is shared, however many reads in a row had theirs on the dead node'
    )
  }
  const errors = await errorsOf(other)
  t.ok((errors.get ?? 0) > (before.get ?? 0) && (errors.connect ?? 0) > (before.connect ?? 0), 'the errors are counted')
  await cluster.restartNode(1)
  // Its own third as well.
  await until(async () => {
    const again = Array.from({ length: 9 }, fresh)
    const written = await writes(other)
    for (const target of again) await other.get(target)
    await until(async () => await writes(other) >= written + again.length, 'all is written', 3000)
    const found = await Promise.all(again.map(async target => (await sharers.one.get(target)).headers['cache-status']))
    return found.every(status => status === hit)
  }, 'the whole cluster is shared again')
  await sharesNow(t, sharers, 'it is shared')
})
