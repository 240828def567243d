// Serves prepared responses in the form of a full node, at almost no cost. Runs as its own process.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'

const head = 2_000_000_000
const blockVersions = 10
const heightOf = version => Math.floor(version / blockVersions)
// Imitates bytecode, which barely compresses; repetitive bodies would make compression look too good.
const noise = Array.from({ length: 1024 }, (_, at) => createHash('sha256').update(String(at)).digest('hex')).join('')
const position = [
  'x-aptos-chain-id',
  '4',
  'x-aptos-ledger-version',
  String(head),
  'x-aptos-ledger-oldest-version',
  '0',
  'x-aptos-ledger-timestampusec',
  '1747000000000000',
  'x-aptos-epoch',
  '12345',
  'x-aptos-block-height',
  String(heightOf(head)),
  'x-aptos-oldest-block-height',
  '0'
]
const json = 'application/json; charset=utf-8'
const counts = { read: 0, head: 0, anchor: 0 }
let delayMs = 0

const routes = [
  // Encodes the body size in the account address, so that every request variant preserves it.
  {
    kind: 'read',
    pattern: /^\/v1\/accounts\/(?:0x)?([0-9a-fA-F]+)\/modules\?ledger_version=(\d+)$/,
    answer: (address, version) => modulesOf(Number.parseInt(address, 16), version)
  },
  { kind: 'anchor', pattern: /^\/v1\/blocks\/by_height\/(\d+)$/, answer: height => blockOf(Number(height)) },
  { kind: 'head', pattern: /^\/v1\/?$/, answer: indexOf }
]

const server = createServer({ keepAliveTimeout: 0 }, async (request, response) => {
  if (request.url.startsWith('/bench')) return control(request, response)
  for (const { kind, pattern, answer } of routes) {
    const found = pattern.exec(request.url)
    if (found === null) continue
    counts[kind]++
    if (delayMs > 0 && kind === 'read') await pause(delayMs)
    return send(response, 200, answer(...found.slice(1)))
  }
  send(response, 404, JSON.stringify({ message: 'not found', error_code: 'web_framework_error', vm_error_code: null }))
})
server.listen(0, '127.0.0.1', 4096, () => {
  console.log(`origin on http://127.0.0.1:${server.address().port}`)
})

function modulesOf (bytes, version) {
  const [before, after] = [`[{"bytecode":"0x${version.padStart(12, '0')}`, '","abi":null}]']
  return before + noise.slice(0, bytes - before.length - after.length) + after
}

function blockOf (height) {
  return JSON.stringify({
    block_height: String(height),
    block_hash: `0x${createHash('sha256').update(`block ${height}`).digest('hex')}`,
    block_timestamp: String(1_700_000_000_000_000 + height),
    first_version: String(height * blockVersions),
    last_version: String(height * blockVersions + blockVersions - 1),
    transactions: null
  })
}

function indexOf () {
  return JSON.stringify({
    chain_id: 4,
    epoch: '12345',
    ledger_version: String(head),
    oldest_ledger_version: '0',
    ledger_timestamp: '1747000000000000',
    node_role: 'full_node',
    oldest_block_height: '0',
    block_height: String(heightOf(head)),
    git_hash: '8f1de1d76c0ed7ac7d1e1b2a1c7ee9e9a0c0ffee',
    encryption_key: null
  })
}

/** Returns request counts and sets the delay of reads; control requests are not counted. */
function control (request, response) {
  const { searchParams } = new URL(request.url, 'http://origin')
  if (searchParams.has('delayMs')) delayMs = Number(searchParams.get('delayMs'))
  send(response, 200, JSON.stringify(counts))
}

function send (response, status, body) {
  response.writeHead(status, ['content-type', json, ...position, 'content-length', String(Buffer.byteLength(body))])
  response.end(body)
}
