import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import t from 'tap'
import { shapedLink } from '../support/shaped-link.js'
import { readSlowly } from '../support/raw.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { varveAt } from '../support/varve.js'

// Exceeds what the kernel buffers for a client that does not read.
const bytes = 7.25 * 1024 * 1024
const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const timeout = 300_000
// Reads as fast as its link allows and prints the number of bytes.
const reader = `
  import { get } from 'node:http'
  let size = 0
  const print = () => { console.log(size) }
  get(process.argv[1], response => {
    response.on('data', chunk => { size += chunk.length }).on('end', print).on('error', print)
  }).on('error', print)
`

// Runs tests side by side, because each waits for its client most of the time.
t.jobs = 3

for (const kilobytes of [150, 32]) {
  const title = `a client that reads ${kilobytes} KB a second receives 7.25 MB whole`
  t.test(title, { timeout }, async t => {
    const stub = await startStubUpstream(t, (_request, response) => {
      respondOk(response, 'x'.repeat(bytes))
    })
    const varve = await varveAt(t, stub.url)
    const sent = request(varve.url + modules).end()
    const [response] = await once(sent, 'response') as [IncomingMessage]
    t.equal(await readSlowly(response, kilobytes * 1024), bytes)
    t.equal(await varve.metric('varve_connections_cut_total{reason="stalled"}'), 0)
  })
}

t.test('a client behind a link of 800 kbit/s receives 7.25 MB whole', { timeout }, async t => {
  const link = await shapedLink(t, '800kbit')
  if (typeof link === 'string') {
    t.pass(link, { skip: true })
    return
  }
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, 'x'.repeat(bytes))
  })
  const varve = await varveAt(t, stub.url, { listen: `${link.host}:0` })
  t.equal(Number(await link.node(reader, varve.url + modules)), bytes)
  t.equal(await varve.metric('varve_connections_cut_total{reason="stalled"}'), 0)
})
