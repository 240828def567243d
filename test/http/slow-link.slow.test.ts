import t from 'tap'
import { shapedLink } from '../support/shaped-link.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'
import { varveAt } from '../support/varve.js'

// Exceeds what the kernel buffers for a client that does not read.
const bytes = 7.25 * 1024 * 1024
const modules = '/v1/accounts/0x1/modules?ledger_version=500'
// Reads as fast as its link allows and prints the number of bytes.
const reader = `
  import { get } from 'node:http'
  let size = 0
  const print = () => { console.log(size) }
  get(process.argv[1], response => {
    response.on('data', chunk => { size += chunk.length }).on('end', print).on('error', print)
  }).on('error', print)
`

t.test('a client behind a link of 800 kbit/s receives 7.25 MB whole', { timeout: 300_000 }, async t => {
  const link = await shapedLink(t, '800kbit')
  if (typeof link === 'string') {
    t.pass(link, { skip: true })
    return
  }
  const stub = await startStubUpstream(t, (_request, response) => respondOk(response, 'x'.repeat(bytes)))
  const varve = await varveAt(t, stub.url, { listen: `${link.host}:0` })
  t.equal(Number(await link.node(reader, varve.url + modules)), bytes)
  t.equal(await varve.metric('varve_connections_cut_total{reason="stalled"}'), 0)
})
