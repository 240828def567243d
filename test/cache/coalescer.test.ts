import t from 'tap'
import { FreshCoalescer, Coalescer } from '../../src/cache/coalescer.js'
import { Deferred } from '../../src/workers/deferred.js'

/** A fetch whose end the test decides. */
function heldFetch<T> (log: string[], name: string): { fetch: () => Promise<T>, end: Deferred<T> } {
  const end = new Deferred<T>()
  const fetch = async (): Promise<T> => {
    log.push(name)
    return await end.promise
  }
  return { fetch, end }
}

t.test('a burst of equal reads shares one fetch', async t => {
  const coalescer = new Coalescer<number>(() => true)
  const log: string[] = []
  const first = heldFetch<number>(log, 'first')
  const callers = Array.from({ length: 1000 }, async () => await coalescer.run('k', first.fetch))
  first.end.resolve(7)
  const results = await Promise.all(callers)
  t.same(log, ['first'])
  t.equal(results.filter(({ isCollapsed }) => isCollapsed).length, 999)
  t.ok(results.every(({ result }) => result === 7))
  t.equal(coalescer.size, 0, 'no fetch remains')
})

t.test('different reads are fetched separately', async t => {
  const coalescer = new Coalescer<string>(() => true)
  const results = await Promise.all(['a', 'b'].map(async key => await coalescer.run(key, async () => key)))
  t.same(results, [{ result: 'a', isCollapsed: false }, { result: 'b', isCollapsed: false }])
})

t.test('a failed coalesced fetch fails only its leader, and the others share one more fetch', async t => {
  const coalescer = new Coalescer<string>(() => true)
  const log: string[] = []
  const first = heldFetch<string>(log, 'first')
  const second = heldFetch<string>(log, 'second')
  const leader = coalescer.run('k', first.fetch)
  const joiners = Array.from({ length: 10 }, async () => await coalescer.run('k', second.fetch))
  first.end.reject(new Error('the upstream failed'))
  await t.rejects(leader, { message: 'the upstream failed' })
  second.end.resolve('ok')
  const results = await Promise.all(joiners)
  t.same(log, ['first', 'second'])
  t.ok(results.every(({ result }) => result === 'ok'))
  t.equal(results.filter(({ isCollapsed }) => isCollapsed).length, 9)
})

t.test('a second failed fetch fails all its readers, so an upstream gets two requests at most', async t => {
  const coalescer = new Coalescer<string>(() => true)
  let fetchCount = 0
  const results = await Promise.allSettled(Array.from({ length: 10 }, async () =>
    await coalescer.run('k', async () => {
      fetchCount++
      throw new Error('dead')
    })))
  t.ok(results.every(({ status }) => status === 'rejected'))
  t.equal(fetchCount, 2)
})

t.test('a latest read joins only a fetch that has not started, behind the one in flight', async t => {
  const coalescer = new FreshCoalescer<string>(() => true)
  const log: string[] = []
  const first = heldFetch<string>(log, 'first')
  const second = heldFetch<string>(log, 'second')
  const third = heldFetch<string>(log, 'third')
  const early = coalescer.run('k', first.fetch)
  await Promise.resolve()
  const gathered = Array.from({ length: 100 }, async () => await coalescer.run('k', second.fetch))
  t.same(log, ['first'], 'the second waits for the first to end')
  t.equal(coalescer.size, 2)
  first.end.resolve('one')
  t.same(await early, { result: 'one', isCollapsed: false })
  await new Promise(resolve => {
    setImmediate(resolve)
  })
  t.same(log, ['first', 'second'])
  const late = coalescer.run('k', third.fetch)
  second.end.resolve('two')
  const got = await Promise.all(gathered)
  t.ok(got.every(({ result }) => result === 'two'))
  t.equal(got.filter(({ isCollapsed }) => isCollapsed).length, 99)
  third.end.resolve('three')
  t.same(await late, { result: 'three', isCollapsed: false }, 'a read after the start of the second gets a third')
  await new Promise(resolve => {
    setImmediate(resolve)
  })
  t.equal(coalescer.size, 0)
})

t.test('a failed latest fetch does not fail the reads queued behind it', async t => {
  const coalescer = new FreshCoalescer<string>(() => true)
  const log: string[] = []
  const first = heldFetch<string>(log, 'first')
  const early = coalescer.run('k', first.fetch)
  await Promise.resolve()
  const queued = coalescer.run('k', async () => 'ok')
  first.end.reject(new Error('dead'))
  await t.rejects(early, { message: 'dead' })
  t.same(await queued, { result: 'ok', isCollapsed: false })
})

t.test('a failed queued fetch fails only its leader, and the others share one more fetch', async t => {
  const coalescer = new FreshCoalescer<string>(() => true)
  const first = heldFetch<string>([], 'first')
  const early = coalescer.run('k', first.fetch)
  await Promise.resolve()
  let flown = 0
  const gathered = Array.from({ length: 10 }, async () =>
    await coalescer.run('k', async () => {
      if (++flown === 1) throw new Error('dead')
      return 'ok'
    }))
  first.end.resolve('one')
  await early
  const results = await Promise.allSettled(gathered)
  t.equal(flown, 2)
  t.same(results.map(({ status }) => status), ['rejected', ...Array(9).fill('fulfilled')])
})

t.test('a failed queued fetch is repeated once and not more', async t => {
  const coalescer = new FreshCoalescer<string>(() => true)
  const first = heldFetch<string>([], 'first')
  const early = coalescer.run('k', first.fetch)
  await Promise.resolve()
  let flown = 0
  const gathered = Array.from({ length: 10 }, async () =>
    await coalescer.run('k', async () => {
      flown++
      throw new Error('dead')
    }))
  first.end.resolve('one')
  await early
  t.ok((await Promise.allSettled(gathered)).every(({ status }) => status === 'rejected'))
  t.equal(flown, 2)
})

const coalescers: readonly [
  string,
  (isShareable: (result: string) => boolean) => Coalescer<string> | FreshCoalescer<string>
][] = [
  ['history', isShareable => new Coalescer(isShareable)],
  ['latest reads', isShareable => new FreshCoalescer(isShareable)]
]

for (const [what, make] of coalescers) {
  t.test(`a streamed response has one reader, and the coalesced reads fetch in parallel (${what})`, async t => {
    const coalescer = make(result => result !== 'stream')
    let flown = 0
    const [finished, gone] = [new Deferred<void>(), new Deferred<void>()]
    const callers = Array.from({ length: 10 }, async () =>
      await coalescer.run('k', async () => {
        const nth = ++flown
        if (nth === 10) gone.resolve()
        if (nth > 1) await finished.promise
        return 'stream'
      }))
    t.same(await callers[0], { result: 'stream', isCollapsed: false })
    await gone.promise
    t.equal(coalescer.size, 0, 'a fetch of a single reader cannot be joined')
    finished.resolve()
    t.same(await Promise.all(callers), Array(10).fill({ result: 'stream', isCollapsed: false }))
    t.equal(flown, 10)
  })

  t.test(`after a stream, separate fetches return their own results and later reads share (${what})`, async t => {
    const coalescer = make(result => result !== 'stream')
    let flown = 0
    const callers = Array.from(
      { length: 3 },
      async () => await coalescer.run('k', async () => ++flown === 1 ? 'stream' : 'small')
    )
    t.same(await Promise.all(callers), [{ result: 'stream', isCollapsed: false }, {
      result: 'small',
      isCollapsed: false
    }, {
      result: 'small',
      isCollapsed: false
    }])
    t.equal(flown, 3)
    t.same(
      (await Promise.all([1, 2].map(async () => await coalescer.run('k', async () => 'small')))).map((
        { isCollapsed }
      ) => isCollapsed),
      [false, true]
    )
  })

  t.test(`a failed separate fetch fails its own reader and is not retried (${what})`, async t => {
    const coalescer = make(() => false)
    let flown = 0
    const callers = Array.from({ length: 4 }, async () =>
      await coalescer.run('k', async () => {
        const nth = ++flown
        if (nth % 2 === 0) throw new Error(`dead ${nth}`)
        return `ok ${nth}`
      }))
    const results = await Promise.allSettled(callers)
    t.match(results, [
      { status: 'fulfilled', value: { result: 'ok 1', isCollapsed: false } },
      { status: 'rejected', reason: { message: 'dead 2' } },
      { status: 'fulfilled', value: { result: 'ok 3', isCollapsed: false } },
      { status: 'rejected', reason: { message: 'dead 4' } }
    ])
    t.equal(flown, 4)
    t.equal(coalescer.size, 0)
  })

  t.test(`after a failure reads share one more fetch, or fetch separately if it streams (${what})`, async t => {
    const coalescer = make(() => false)
    let flown = 0
    const callers = Array.from({ length: 10 }, async () =>
      await coalescer.run('k', async () => {
        if (++flown === 1) throw new Error('dead')
        return 'stream'
      }))
    t.same((await Promise.allSettled(callers)).map(({ status }) => status), ['rejected', ...Array(9).fill('fulfilled')])
    t.equal(flown, 10)
    t.equal(coalescer.size, 0)
  })
}

t.test('a fetch is reported in flight under its own key only', async t => {
  const coalescer = new Coalescer<string>(() => true)
  const first = heldFetch<string>([], 'first')
  const fetching = coalescer.run('k', first.fetch)
  t.same([coalescer.has('k'), coalescer.has('other')], [true, false])
  first.end.resolve('one')
  await fetching
  t.equal(coalescer.has('k'), false)
})

t.test('a latest read that must fetch alone starts at once, not behind a queued fetch', async t => {
  const coalescer = new FreshCoalescer<string>(result => result !== 'stream')
  const log: string[] = []
  const slow = heldFetch<string>(log, 'slow')
  let flown = 0
  const first = coalescer.run('k', async () => 'stream')
  const coalesced = coalescer.run('k', async () => {
    log.push('alone')
    return `own ${++flown}`
  })
  await first
  const third = coalescer.run('k', slow.fetch)
  t.same(await coalesced, { result: 'own 1', isCollapsed: false })
  t.ok(log.includes('alone'))
  slow.end.resolve('three')
  t.same(await third, { result: 'three', isCollapsed: false })
})
