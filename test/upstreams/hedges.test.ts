import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type Look } from '../../src/upstreams/attempts.js'
import { Fleet } from '../../src/upstreams/fleet.js'
import { HedgeBucket } from '../../src/upstreams/hedge-bucket.js'
import { type HedgeOptions, Hedges } from '../../src/upstreams/hedges.js'
import { Member } from '../../src/upstreams/member.js'
import { LedgerNode, type NodeOptions } from '../../src/upstreams/node.js'
import { type Question } from '../../src/upstreams/question.js'
import { type Route } from '../../src/upstreams/route.js'
import { echoing, standStill } from '../support/standing-still.js'
import { ok, stamps, stubNode } from '../support/stub-node.js'
import { until } from '../support/until.js'

const question: Question = {
  endpoint: 'account_modules',
  method: 'GET',
  target: '/v1/accounts/0x1/modules',
  headers: { accept: 'application/json' },
  isIdempotent: true
}
const anything: Route = { version: undefined, atLeast: undefined, events: undefined }
const fine: Look = () => undefined
const timeoutMs = 3000

type Script = (response: ServerResponse, request: IncomingMessage) => void

const answers = (body: string, headers: Record<string, string> = {}): Script => response => {
  ok(response, body, headers)
}
const hangs: Script = () => {}
const says = (status: number): Script => response => {
  response.writeHead(status, { 'content-type': 'application/json', ...stamps() }).end(`{"status":${status}}`)
}
const late = (ms: number, script: Script): Script => (response, request) => {
  setTimeout(() => {
    script(response, request)
  }, ms)
}

interface Nodes {
  readonly fleet: Fleet
  readonly members: readonly Member[]
  /** What each does when it is asked for data from now on. */
  readonly scripts: Script[]
  /** What came of hedges. */
  readonly told: string[]
  /** How often each was asked since it was looked at last. */
  asked(): number[]
  /** How often each was compared. */
  readonly compared: number[]
  ask(route?: Partial<Route>, look?: Look): Promise<string>
}

/** Nodes that have each answered once, so that they are believed, with the first to be asked first. */
async function nodesOf (
  t: Test,
  scripts: Script[],
  hedge: Partial<HedgeOptions> = {},
  change: Partial<NodeOptions> = {}
): Promise<Nodes> {
  const compared = scripts.map(() => 0)
  const told: string[] = []
  const current: Script[] = scripts.map(() => answers('["start"]'))
  const stubs = await Promise.all(scripts.map(async (_, at) =>
    await stubNode(t, (request, response) => {
      current[at]?.(response, request)
    })
  ))
  const members = stubs.map(({ url }, at) => {
    const node = new LedgerNode({
      name: `n${at + 1}`,
      url,
      headers: {},
      timeoutMs,
      maxConcurrent: 8,
      caFile: null,
      maxGatheredBytes: 10_000,
      onLost: () => {
        member.lost()
      },
      now: () => performance.now(),
      ...change
    }, { asked: () => {} })
    t.teardown(async () => {
      await node.close()
    })
    const welcome = async (): Promise<undefined> => {
      compared[at] = (compared[at] ?? 0) + 1
    }
    const member: Member = new Member(node, {
      now: () => performance.now(),
      welcome,
      isStrange: () => false,
      recognises: async () => true,
      hasPeers: () => true
    })
    return member
  })
  const hedges = new Hedges({ share: 0.05, burst: 10, afterMs: 20, ...hedge }, {
    hedged: result => {
      told.push(result)
    }
  })
  const fleet = new Fleet(members, hedges, { isGone: () => false }, {
    wallClockMs: () => Date.now(),
    onOldest: () => {},
    onNobody: async () => {}
  })
  for (const member of members) {
    await member.ask(question)
    member.health.answered()
    // Whoever took less is asked first, also where a busy machine makes it take some more.
    for (let nth = 0; nth < 40; nth++) member.health.took(1 + 200 * members.indexOf(member))
  }
  scripts.forEach((script, at) => {
    current[at] = script
  })
  const asked = (): number[] => stubs.map(({ asked }) => asked.splice(0).length)
  asked()
  const ask = async (route: Partial<Route> = {}, look = fine): Promise<string> => {
    try {
      const { status, body } = await fleet.ask(question, { ...anything, ...route }, look)
      return `${status} ${body.toString()}`
    } catch (error) {
      return (error as Error).message
    }
  }
  return { fleet, members, scripts: current, told, asked, compared, ask }
}

t.test('where a node takes its time another is asked too, and the first answer is taken', async t => {
  const { ask, asked, told } = await nodesOf(t, [hangs, answers('["second"]')])
  const began = performance.now()
  t.equal(await ask(), '200 ["second"]')
  t.ok(performance.now() - began < timeoutMs / 2, 'before the first was given up')
  t.same([asked(), told], [[1, 1], ['won']])
  const slow = await nodesOf(t, [late(300, answers('["first"]')), hangs])
  t.equal(await slow.ask(), '200 ["first"]')
  t.same([slow.asked(), slow.told], [[1, 1], ['lost']])
  const soon = await nodesOf(t, [answers('["first"]'), hangs], { afterMs: timeoutMs / 2 })
  for (let nth = 0; nth < 3; nth++) t.equal(await soon.ask(), '200 ["first"]')
  t.same([soon.asked(), soon.told], [[3, 0], []], 'who answers soon is asked alone')
})

t.test('the other is taken back: its node sees the connection end, is still believed without being compared again, and has not failed', async t => {
  let closed: Promise<unknown> | undefined
  const { ask, members, compared, scripts } = await nodesOf(t, [(_request, response) => {
    closed = once(response, 'close')
  }, answers('["second"]')])
  scripts[0] = response => {
    closed = once(response, 'close')
  }
  t.equal(await ask(), '200 ["second"]')
  await closed
  const [first] = members
  await until(() => first?.node.budget.underWay === 0, 'its turn is over')
  t.same([first?.isBelieved, first?.isUp, first?.health.lastFailure, first?.node.up], [true, true, undefined, true])
  t.ok((first?.health.tookMs ?? 0) > 2, 'how long it was waited for counts')
  scripts[0] = answers('["first"]')
  await first?.ask(question)
  t.same(compared, [1, 1])
})

t.test('a node that is that does not answer in its time is compared again, since it may have been started anew', async t => {
  const { members: [first], compared, scripts } = await nodesOf(t, [hangs, hangs])
  await t.rejects(async () => await first?.ask(question, 20))
  scripts[0] = answers('[]')
  await first?.ask(question)
  t.same(compared, [2, 1])
})

t.test('an answer that another may do better does not win: the other is waited for, and each is asked once', async t => {
  const behind: Look = ({ body }) => body.toString() === '["behind"]' ? 'behind' : undefined
  const better = await nodesOf(t, [late(300, answers('["first"]')), answers('["behind"]')])
  t.equal(await better.ask({}, behind), '200 ["first"]')
  t.same([better.asked(), better.told], [[1, 1], ['lost']])
  const worse = await nodesOf(t, [late(300, answers('["behind"]')), says(500)])
  t.equal(await worse.ask({}, behind), '200 ["behind"]', 'where none does better, it is what it is')
  t.same([worse.asked(), worse.told], [[1, 1], ['failed']])
  const broken = await nodesOf(t, [late(300, says(503)), late(300, answers('["second"]')), hangs])
  t.equal(await broken.ask(), '200 ["second"]')
  t.same([broken.asked(), broken.told], [[1, 1, 0], ['won']])
  const third = await nodesOf(t, [late(300, says(503)), says(503), answers('["third"]')])
  t.equal(await third.ask(), '200 ["third"]')
  t.same(third.asked(), [1, 1, 1])
})

t.test('of two answers that come in one moment one is taken, and the rest of the other is let go of', async t => {
  const hedges = new Hedges({ share: 1, burst: 1, afterMs: 1 }, { hedged: () => {} })
  const memberOf = (): Member => ({ health: { reads: {} }, node: { budget: { isTight: () => false } } }) as never
  const [first, second] = [memberOf(), memberOf()]
  const gone: Member[] = []
  const resolves: Array<() => void> = []
  const asked = hedges.ask(first, () => second, async member => {
    const came = new Promise<void>(resolve => {
      resolves.push(resolve)
    })
    if (resolves.length === 2) {
      setImmediate(() => {
        for (const resolve of resolves) resolve()
      })
    }
    await came
    return {
      answer: {
        rest: {
          destroy: () => {
            gone.push(member)
          }
        }
      },
      flaw: undefined
    } as never
  })
  const came = await asked
  t.equal(came.length, 1)
  t.same(gone.map(member => member === first ? 'first' : 'second'), [came[0]?.member === first ? 'second' : 'first'])
})

t.test('only a node is asked beside that would surely answer as well: up, believed, with the version, as far as was shown, with as long a history', async t => {
  const cases: Array<[name: string, route: Partial<Route>, change: (second: Member) => void]> = [
    ['well', { version: 500n }, () => {}],
    ['without the version', { version: 5n }, () => {}],
    ['behind', { atLeast: 1001n }, () => {}],
    ['down', {}, ({ health }) => {
      health.failed('refused', true)
    }],
    ['resting', {}, ({ health }) => {
      health.rest(60_000)
    }],
    ['in doubt', {}, second => {
      second.lost()
    }],
    ['of a shorter history', { events: 'from' }, ({ standing }) => {
      const { stamped } = standing
      if (stamped !== undefined) {
        standing.learn({
          ...stamped,
          position: { ...stamped.position, oldest: { ...stamped.position.oldest, version: 100n } }
        })
      }
    }]
  ]
  for (const [name, route, change] of cases) {
    const isWell = name === 'well'
    const { ask, asked, members: [, second] } = await nodesOf(t, [
      isWell ? hangs : late(300, answers('["first"]')),
      answers('["second"]')
    ])
    if (second !== undefined) change(second)
    t.equal(await ask(route), isWell ? '200 ["second"]' : '200 ["first"]', name)
    t.same(asked(), [1, isWell ? 1 : 0], name)
  }
})

t.test('while a node has much to do nobody is asked more for it, neither where it is the slow one nor where it is the other', async t => {
  for (const at of [0, 1]) {
    const { ask, asked, members } = await nodesOf(t, [late(300, answers('["first"]')), answers('["second"]')], {}, {
      maxConcurrent: 4
    })
    const turns = [0, 1, 2].slice(at).map(() => members[at]?.node.budget.take(false))
    t.equal(await ask(), '200 ["first"]')
    t.same(asked(), [1, 0])
    for (const turn of turns) turn?.over()
  }
})

t.test('what is asked beside is never more than the share of the reads and the burst, and what is granted later goes to who still hangs', async t => {
  const bucket = new HedgeBucket(0.25, 2)
  t.same([bucket.take(), bucket.take(), bucket.take()], [true, true, false])
  for (let nth = 0; nth < 4; nth++) bucket.earn()
  t.same([bucket.take(), bucket.take()], [true, false])
  for (let nth = 0; nth < 100; nth++) bucket.earn()
  t.same(
    [bucket.take(), bucket.take(), bucket.take()],
    [true, true, false],
    'what nobody has used is no more than the burst'
  )

  const nodes = await nodesOf(t, [hangs, answers('["second"]')], { share: 0.5, burst: 1, afterMs: 30 })
  const { ask, asked, told, scripts, members: [, second] } = nodes
  for (let nth = 0; nth < 40; nth++) second?.health.took(60)
  t.equal(await ask(), '200 ["second"]')
  asked()
  const hanging = ask()
  await until(() => asked()[0] === 1, 'it hangs')
  await new Promise(resolve => {
    setTimeout(resolve, 50)
  })
  t.same([asked(), told], [[0, 0], ['won']], 'nothing is granted')
  scripts[0] = answers('["first"]')
  for (let nth = 0; nth < 2; nth++) await ask()
  t.equal(await hanging, '200 ["second"]')
})

t.test('one that takes longer than its reads mostly do is too slow, as soon as enough is known of them', async t => {
  const { ask, told, scripts, members: [first] } = await nodesOf(t, [
    late(300, answers('["first"]')),
    answers('["second"]')
  ], { afterMs: 60_000 })
  t.equal(await ask(), '200 ["first"]')
  scripts[0] = hangs
  for (let nth = 0; nth < 60; nth++) first?.health.took(1, true)
  t.equal(await ask(), '200 ["second"]')
  t.same(told, ['won'])
})

t.test('a node that answered while varve itself stood still is not late: no other is asked beside', async t => {
  const { members: [first] } = await nodesOf(t, [hangs])
  if (first === undefined) throw new Error('there is no node')
  const socket = await echoing(t)
  const told: string[] = []
  const hedges = new Hedges({ share: 1, burst: 10, afterMs: 20 }, {
    hedged: result => {
      told.push(result)
    }
  })
  const tried = hedges.ask(first, () => first, async () => {
    socket.write('asked')
    await once(socket, 'data')
    throw new Error('an answer like any other')
  })
  standStill(300)
  t.same([(await tried).length, told], [1, []])
})

t.test('what is passed on is asked of one node at a time', async t => {
  const { fleet, asked } = await nodesOf(t, [late(300, answers('["first"]')), answers('["second"]')])
  const answer = await fleet.pass(question, anything, fine, new AbortController().signal)
  answer.rest?.destroy()
  t.same(asked(), [1, 0])
})
