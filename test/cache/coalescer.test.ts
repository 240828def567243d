import t from 'tap'
import { type Coalesced, FreshCoalescer, Coalescer } from '../../src/cache/coalescer.js'
import { Deferred } from '../../src/peers/deferred.js'

type Load = () => Promise<string>
const own = (result: string): Coalesced<string> => ({ result, isCollapsed: false })
const untilStarted = async (): Promise<unknown> => await new Promise(setImmediate)

/** A fetch that the test ends, with the number of its starts. */
class Gate extends Deferred<string> {
  starts = 0
  readonly fetch = async (): Promise<string> => {
    this.starts++
    return await this.promise
  }
}

/** Runs some equal reads; `load` gets the number of the fetch, from 1 on. */
function runMany (
  coalescer: Coalescer<string> | FreshCoalescer<string>,
  count: number,
  load: (nth: number) => string | Promise<string>
): { results: Array<Promise<Coalesced<string>>>, fetches: () => number } {
  let fetches = 0
  const loadNext: Load = async () => await load(++fetches)
  const results = Array.from({ length: count }, async () => await coalescer.run('k', loadNext))
  return { results, fetches: () => fetches }
}

function fail (nth: number): never {
  throw new Error(`dead ${nth}`)
}

t.test('a burst of equal reads shares one fetch, and different reads are fetched separately', async t => {
  const coalescer = new Coalescer<string>(() => true)
  const gate = new Gate()
  const { results, fetches } = runMany(coalescer, 1000, gate.fetch)
  t.same([coalescer.has('k'), coalescer.has('other')], [true, false])
  const other = coalescer.run('other', async () => 'other')
  gate.resolve('one')
  const all = await Promise.all(results)
  t.same([fetches(), all.filter(({ isCollapsed }) => isCollapsed).length], [1, 999])
  t.ok(all.every(({ result }) => result === 'one'))
  t.same(await other, own('other'))
  t.same([coalescer.size, coalescer.has('k')], [0, false])
})

t.test('a latest read joins only a fetch that has not started, behind the one in flight', async t => {
  const coalescer = new FreshCoalescer<string>(() => true)
  const [first, second, third] = [new Gate(), new Gate(), new Gate()]
  const early = coalescer.run('k', first.fetch)
  await Promise.resolve()
  const gathered = Array.from({ length: 100 }, async () => await coalescer.run('k', second.fetch))
  t.same([first.starts, second.starts, coalescer.size], [1, 0, 2])
  first.resolve('one')
  t.same(await early, own('one'))
  await untilStarted()
  t.equal(second.starts, 1)
  const late = coalescer.run('k', third.fetch)
  second.resolve('two')
  const got = await Promise.all(gathered)
  t.ok(got.every(({ result }) => result === 'two'))
  t.equal(got.filter(({ isCollapsed }) => isCollapsed).length, 99)
  third.resolve('three')
  t.same(await late, own('three'), 'a read after the start of the second gets a third')
  await untilStarted()
  t.equal(coalescer.size, 0)
})

t.test('a latest read behind a fetch that fails, or that it cannot share, fetches by itself', async t => {
  const coalescer = new FreshCoalescer<string>(result => result !== 'stream')
  const first = new Gate()
  const early = coalescer.run('k', first.fetch)
  await Promise.resolve()
  const queued = coalescer.run('k', async () => 'ok')
  first.reject(new Error('dead'))
  await t.rejects(early, { message: 'dead' })
  t.same(await queued, own('ok'))
  const slow = new Gate()
  const stream = coalescer.run('k', async () => 'stream')
  const alone = coalescer.run('k', async () => 'alone')
  await stream
  const behind = coalescer.run('k', slow.fetch)
  t.same(await alone, own('alone'), 'at once, not behind a queued fetch')
  slow.resolve('slow')
  t.same(await behind, own('slow'))
})

for (
  const [what, make] of [
    ['history', (isShareable: (result: string) => boolean) => new Coalescer(isShareable)],
    ['latest reads', (isShareable: (result: string) => boolean) => new FreshCoalescer(isShareable)]
  ] as const
) {
  const rows: Array<{
    why: string,
    count: number,
    load: (nth: number) => string,
    isShareable: boolean,
    failed: number,
    collapsed: number,
    fetches: number
  }> = [
    {
      why: 'a failure is its leader\'s alone: the others share one more fetch',
      count: 10,
      load: nth => nth === 1 ? fail(nth) : 'ok',
      isShareable: true,
      failed: 1,
      collapsed: 8,
      fetches: 2
    },
    {
      why: 'a second failure fails all, so that an upstream gets two requests at most',
      count: 10,
      load: fail,
      isShareable: true,
      failed: 10,
      collapsed: 0,
      fetches: 2
    },
    {
      why: 'after a failure reads fetch separately if the response streams',
      count: 10,
      load: nth => nth === 1 ? fail(nth) : 'stream',
      isShareable: false,
      failed: 1,
      collapsed: 0,
      fetches: 10
    },
    {
      why: 'a failed separate fetch fails its own reader and is not retried',
      count: 4,
      load: nth => nth % 2 === 0 ? fail(nth) : 'stream',
      isShareable: false,
      failed: 2,
      collapsed: 0,
      fetches: 4
    }
  ]
  for (const { why, count, load, isShareable, failed, collapsed, fetches } of rows) {
    t.test(`${why} (${what})`, async t => {
      const coalescer = make(() => isShareable)
      const many = runMany(coalescer, count, load)
      const results = await Promise.allSettled(many.results)
      const shared = results.filter(result => result.status === 'fulfilled' && result.value.isCollapsed).length
      t.same(
        [results.filter(({ status }) => status === 'rejected').length, shared, many.fetches()],
        [failed, collapsed, fetches]
      )
      await untilStarted()
      t.equal(coalescer.size, 0)
    })
  }

  t.test(`a streamed response has one reader; the others fetch in parallel, later ones share (${what})`, async t => {
    const coalescer = make(result => result !== 'stream')
    const [finished, allGone] = [new Deferred<string>(), new Deferred<void>()]
    const { results, fetches } = runMany(coalescer, 10, async nth => {
      if (nth === 10) allGone.resolve()
      return nth === 1 ? 'stream' : await finished.promise
    })
    t.same(await results[0], own('stream'))
    await allGone.promise
    t.equal(coalescer.size, 0, 'a fetch of a single reader cannot be joined')
    finished.resolve('small')
    t.same(await Promise.all(results), [own('stream'), ...Array(9).fill(own('small'))])
    t.equal(fetches(), 10)
    t.same((await Promise.all(runMany(coalescer, 2, () => 'small').results)).map(({ isCollapsed }) => isCollapsed), [
      false,
      true
    ])
  })
}
