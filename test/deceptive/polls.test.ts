import t from 'tap'
import { head, kindOf } from '../support/deceptive/kinds.js'
import { tellOf } from '../support/deceptive/lying-node.js'
import { strangers } from '../support/deceptive/lies/positions.js'
import { type Stage, stageOf } from '../support/deceptive/trial.js'
import { WireClient } from '../support/deceptive/wire-client.js'
import { chunked, ends, keeps, type Said, wire } from '../support/deceptive/wire.js'
import { until } from '../support/until.js'

const modules = kindOf('modules')
const index = { nth: 0, target: '/v1', type: 'application/json', stamps: head, body: '{"git_hash":"aaaa"}' }
const te = ['transfer-encoding: chunked']
const later = {
  ...head,
  'x-aptos-ledger-version': '1000010',
  'x-aptos-ledger-timestampusec': '5000100',
  'x-aptos-block-height': '100001'
}

/** Asks for history that was never asked for before; what came, and under which position. */
async function readNew ({ varve, next }: Stage): Promise<{ isTrue: boolean, version: string | undefined }> {
  const truth = modules.truth(next())
  tellOf(truth)
  const client = new WireClient(varve.url)
  const { status, body, lines } = await client.ask(modules.request(truth.nth))
  client.close()
  return {
    isTrue: status === 200 && body === truth.body,
    version: lines.find(([name]) => name === 'x-node-ledger-version')?.[1]
  }
}

/** What must hold as soon as a node tells the truth again: reads are answered, under where the chain stands now. */
async function recovers (stage: Stage, name: string): Promise<void> {
  await until(
    async () => {
      const { isTrue, version } = await readNew(stage)
      return isTrue && version === stage.node.head['x-aptos-ledger-version']
    },
    `${name}: the truth is shown again`,
    5000
  )
}

// Told of the head itself, where nothing is asked but where it stands.
const words: ReadonlyArray<readonly [string, Said]> = [
  ['cut short', ends(wire(index, { framing: ['content-length: 99'] }))],
  ['a chunk cut short', ends(wire(index, { framing: te, body: `ff\r\n${index.body}` }))],
  ['no HTTP', ends('evil\r\n\r\n')],
  ['nothing', ends('')],
  ['surplus behind it', keeps(wire(index) + wire(index, { stamps: { 'x-aptos-ledger-version': '7' } }))],
  [
    'positions in trailers',
    keeps(wire(index, { framing: te, body: chunked(index.body, 'x-aptos-ledger-version: 7\r\n') }))
  ],
  [
    'a transfer coding',
    ends(
      wire(index, {
        framing: ['transfer-encoding: gzip, chunked'],
        stamps: { 'x-aptos-ledger-version': '2000000' },
        body: chunked(index.body)
      })
    )
  ],
  ['no position', keeps(wire({ ...index, stamps: {} }))],
  [
    'two positions',
    keeps(wire(index, { lines: Object.keys(head).map(name => `${name.replace('aptos', 'node')}: 7`) }))
  ],
  [
    'a time of 2^64-1',
    keeps(
      wire(index, {
        stamps: {
          'x-aptos-ledger-timestampusec': '18446744073709551615',
          'x-aptos-ledger-version': '18446744073709551615'
        }
      })
    )
  ],
  [
    'a time in the year 2100 and a later head',
    keeps(
      wire(index, {
        stamps: { 'x-aptos-ledger-timestampusec': '4102444800000000', 'x-aptos-ledger-version': '1000500' }
      })
    )
  ],
  ['a version beyond u64', keeps(wire(index, { stamps: { 'x-aptos-ledger-version': '18446744073709551616' } }))],
  ['an oldest version above the head', keeps(wire(index, { stamps: { 'x-aptos-ledger-oldest-version': '1000001' } }))],
  ...[204, 206, 301, 304, 307].map((
    code
  ): [string, Said] => [
    `${code}`,
    keeps(
      wire(index, {
        first: `HTTP/1.1 ${code} Odd`,
        lines: ['location: /v1/evil'],
        stamps: { 'x-aptos-ledger-version': '2000000' },
        ...((code === 204 || code === 304) && { framing: [], body: '' })
      })
    )
  ]),
  ['a page of a gateway', keeps(wire({ ...index, stamps: {}, type: 'text/html', body: '<html>' }))],
  [
    'a body over the limit',
    keeps(
      wire(index, { body: 'x'.repeat(1_500_000), stamps: { 'x-aptos-ledger-version': '7', 'x-aptos-chain-id': '300' } })
    )
  ],
  ['a head over the limit', ends(wire(index, { lines: [`x-evil: ${'x'.repeat(70_000)}`] }))],
  ['a release of 100 KB', keeps(wire(index, { body: `{"git_hash":"${'a'.repeat(100_000)}"}` }))]
]

t.test('whatever a node says of where it stands, reads go on, and the position is the one that was proven', async t => {
  const stage = await stageOf(t, { head: { pollMs: 20 }, cache: { maxEntryMb: 1 } })
  const { node } = stage
  for (const [name, said] of words) {
    node.lies.set('/v1', said)
    const before = node.polls
    await until(() => node.polls > before + 1, `${name}: it was asked`)
    const { isTrue, version } = await readNew(stage)
    t.same([name, isTrue, version], [name, true, head['x-aptos-ledger-version']])
    t.equal(node.asked.filter(target => target.includes('evil')).length, 0, `${name}: nowhere else is asked`)
    node.lies.delete('/v1')
  }
  node.head = later
  await recovers(stage, 'after all of them')
})

t.test('a position that is well formed and of nowhere is not shown for good: the truth that follows it is believed', async t => {
  for (const [name, stamps] of strangers) {
    for (const target of ['/v1', 'read']) {
      const stage = await stageOf(t, { head: { pollMs: 20 } })
      const { node, next, varve } = stage
      await readNew(stage)
      if (target === '/v1') {
        const before = node.polls
        node.lies.set(target, keeps(wire(index, { stamps })))
        await until(() => node.polls > before + 1, `${name}: it was asked`)
        node.lies.delete(target)
      } else {
        const truth = modules.truth(next())
        node.lies.set(truth.target, keeps(wire(truth, { stamps })))
        const client = new WireClient(varve.url)
        await client.ask(modules.request(truth.nth))
        client.close()
      }
      node.head = later
      await recovers(stage, `${name}, told at ${target}`)
    }
    t.pass(name)
  }
})
