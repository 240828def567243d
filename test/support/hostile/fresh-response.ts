import { crc32 } from 'node:zlib'
import { stamps } from '../stub-upstream.js'

/** Head of the upstream of hostile requests. */
export const headVersion = '100000000'

/** All position headers. */
export const position = stamps({
  'x-aptos-chain-id': '1',
  'x-aptos-ledger-version': headVersion,
  'x-aptos-ledger-oldest-version': '0',
  'x-aptos-ledger-timestampusec': '1700000000000000',
  'x-aptos-block-height': headVersion,
  'x-aptos-oldest-block-height': '0'
})

/** Returns a 200 with all position headers and a number that no other response has. */
export function freshResponse (request: string, fresh: number): string {
  const [line = ''] = request.split('\r\n', 1)
  const [method = '', target = ''] = line.split(' ')
  const isBcs = /^accept: *application\/x-bcs\r?$/im.test(request)
  const body = isBcs ? `bcs ${fresh} ${line}` : bodyOf(target, method, fresh)
  const head = [
    'HTTP/1.1 200 OK',
    `content-type: ${isBcs ? 'application/x-bcs' : 'application/json; charset=utf-8'}`,
    ...Object.entries(position).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(body)}`
  ]
  return `${head.join('\r\n')}\r\n\r\n${method === 'HEAD' ? '' : body}`
}

// Returns blocks of one version and full event pages, because varve would not store others.
function bodyOf (target: string, method: string, fresh: number): string {
  const { pathname, searchParams } = new URL(target, 'http://node')
  if (pathname === '/v1') return '{"git_hash":"aaaa"}'
  const version = /^\/v1\/blocks\/by_(?:version|height)\/(\d+)$/.exec(pathname)?.[1]
  if (version !== undefined) {
    const transaction = { version, success: true, accumulator_root_hash: '0x1', n: fresh }
    return JSON.stringify({
      block_height: version,
      block_hash: `0x${version.padStart(64, '0')}`,
      // The anchors of varve must stay the same.
      block_timestamp: String(1_600_000_000_000_000 + (pathname.includes('by_height') ? 0 : fresh)),
      first_version: version,
      last_version: version,
      transactions: searchParams.get('with_transactions') === 'true' ? [transaction] : null
    })
  }
  const start = searchParams.get('start')
  if (!pathname.includes('/events/') || start === null) {
    return JSON.stringify({ n: fresh, asked: `${method} ${target}` })
  }
  return JSON.stringify(Array.from({ length: Math.min(Number(searchParams.get('limit') ?? 25), 100) }, (_, at) => ({
    version: String(1000 + at),
    guid: { creation_number: String(crc32(pathname)), account_address: '0x1' },
    sequence_number: String(BigInt(start) + BigInt(at)),
    type: '0x1::block::NewBlockEvent',
    data: { n: fresh }
  })))
}
