import { crc32 } from 'node:zlib'

/** Head of the recording upstream. */
export const headVersion = 100_000_000n

const position = [
  'x-aptos-chain-id: 1',
  `x-aptos-ledger-version: ${headVersion}`,
  'x-aptos-ledger-oldest-version: 0',
  'x-aptos-ledger-timestampusec: 1700000000000000',
  'x-aptos-epoch: 9',
  `x-aptos-block-height: ${headVersion}`,
  'x-aptos-oldest-block-height: 0'
]

/** Returns a 200 with all position headers and a number that no other response has. */
export function respondTo (request: string, fresh: number): string {
  const [line = ''] = request.split('\r\n', 1)
  const [method = '', target = ''] = line.split(' ')
  const isBcs = /^accept: *application\/x-bcs\r?$/im.test(request)
  const body = isBcs ? `bcs ${fresh} ${line}` : bodyOf(target, method, fresh)
  const head = [
    'HTTP/1.1 200 OK',
    `content-type: ${isBcs ? 'application/x-bcs' : 'application/json; charset=utf-8'}`,
    ...position,
    `content-length: ${Buffer.byteLength(body)}`
  ]
  return `${head.join('\r\n')}\r\n\r\n${method === 'HEAD' ? '' : body}`
}

// Returns blocks and event pages as nodes make them, because varve would not store others.
function bodyOf (target: string, method: string, fresh: number): string {
  const url = new URL(target, 'http://node')
  const block = /^\/v1\/blocks\/by_(?:version|height)\/(\d+)$/.exec(url.pathname)?.[1]
  if (url.pathname === '/v1') return '{"git_hash":"aaaa"}'
  if (block !== undefined) {
    return blockOf(
      block,
      url.pathname.includes('by_height') ? 0 : fresh,
      url.searchParams.get('with_transactions') === 'true'
    )
  }
  const start = url.searchParams.get('start')
  if (url.pathname.includes('/events/') && start !== null) {
    return eventsFrom(url.pathname, BigInt(start), Number(url.searchParams.get('limit') ?? 25), fresh)
  }
  return JSON.stringify({ n: fresh, asked: `${method} ${target}` })
}

// Returns blocks of one version each, so that versions never share one; the fresh number is in a harmless place.
function blockOf (version: string, fresh: number, isWithTransactions: boolean): string {
  const transactions = isWithTransactions
    ? `[{"version":"${version}","success":true,"accumulator_root_hash":"0x1","n":${fresh}}]`
    : 'null'
  const hash = `0x${version.padStart(64, '0')}`
  return `{"block_height":"${version}","block_hash":"${hash}","block_timestamp":"${
    1_600_000_000_000_000 + fresh
  }","first_version":"${version}","last_version":"${version}","transactions":${transactions}}`
}

// Returns events of a handle's own stream.
function eventsFrom (path: string, start: bigint, limit: number, fresh: number): string {
  const events = Array.from({ length: Math.min(limit, 100) }, (_, at) => ({
    version: String(1000 + at),
    guid: { creation_number: String(crc32(path)), account_address: '0x1' },
    sequence_number: String(start + BigInt(at)),
    type: '0x1::block::NewBlockEvent',
    data: { n: fresh }
  }))
  return JSON.stringify(events)
}
