// Sends reads to a varve that serves its sandbox, so that dashboards show traffic; exits by itself.
// Usage: node traffic.mjs READS_URL ADMIN_URL SECONDS READS_PER_SECOND
const [reads = '', admin = '', seconds = '', perSecond = ''] = process.argv.slice(2)
const headers = { 'content-type': 'application/json' }
// Allows slow reads, without letting them pile up.
const timeoutMs = 5000

const untilMs = performance.now() + Number(seconds) * 1000
let sent = 0
let failed = 0
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    end(0)
  })
}

const status = await statusOf()
if (status.varve.isSandbox !== true) {
  console.log('traffic: this varve serves real upstreams, so nothing is sent')
  end(0)
}
let head = status.position
console.log(`traffic: ${perSecond} reads a second for ${seconds} s`)
setInterval(() => {
  if (performance.now() >= untilMs) end(failed === 0 ? 0 : 1)
  sent += 1
  read(drawn()).catch(() => {
    failed += 1
  })
}, 1000 / Number(perSecond))
// Reads the head again, since the chain moves on.
setInterval(() => {
  statusOf().then(({ position }) => {
    head = position
  }, () => {})
}, 5000)

function end (code) {
  console.log(`traffic: ${sent} reads, ${failed} failed`)
  process.exit(code)
}

async function statusOf () {
  return await (await fetch(`${admin}/status.json`, { signal: AbortSignal.timeout(timeoutMs) })).json()
}

async function read ({ path, body }) {
  const answer = await fetch(`${reads}${path}`, {
    ...(body && { method: 'POST', headers, body }),
    signal: AbortSignal.timeout(timeoutMs)
  })
  await answer.arrayBuffer()
}

// Most readers want what is new, and a few go far back: twice as far is half as likely.
function drawn () {
  const version = Number(head.version) - Math.floor(2 ** (14 * Math.random()))
  // Applications read the head once and stay with it for a while, so that many read at the same version.
  const pinned = Math.floor(version / 1000) * 1000
  const page = Math.floor(Number(head.blockHeight) / 25) - 1 - Math.floor(8 * Math.random() ** 2)
  const item = {
    path: `/v1/tables/0x5eed/item?ledger_version=${pinned}`,
    body: JSON.stringify({ key_type: 'u64', value_type: 'u64', key: String(Math.floor(8 * Math.random())) })
  }
  const reads = [
    item,
    item,
    item,
    { path: `/v1/accounts/0x1/modules?ledger_version=${pinned}&limit=2` },
    { path: `/v1/blocks/by_version/${version - version % 100}` },
    { path: `/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=${25 * page}&limit=25` },
    { path: '/v1/accounts/0x1/modules?limit=1' },
    { path: '/v1/info' },
    { path: '/v1/estimate_gas_price' }
  ]
  return reads[Math.floor(reads.length * Math.random())]
}
