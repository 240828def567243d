import { SeededRandom } from './seeded-random.js'
import { type ReadSpec } from './read-spec.js'

/** A request as it goes onto the wire. */
export interface ModelRequest {
  readonly method: 'GET' | 'POST'
  readonly target: string
  readonly headers: Record<string, string>
  readonly body: string | undefined
}

const streams = {
  blocks: ['1', '0x1::block::BlockResource', 'new_block_events'],
  epochs: ['1', '0x1::reconfiguration::Configuration', 'events'],
  deposits: ['cafe', '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>', 'deposit_events'],
  nothing: ['cafe', '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>', 'withdraw_events']
} as const

/** Renders an equivalent request variant; without `chance` the plainest. */
export function renderRequest (wish: ReadSpec, chance?: SeededRandom): ModelRequest {
  const plain = chance === undefined
  const draw = chance ?? new SeededRandom(0)
  const address = (digits: string): string =>
    plain
      ? `0x${digits}`
      : draw.pick([`0x${digits}`, digits, `0x0${digits}`, `0x${digits.padStart(64, '0')}`, digits.toUpperCase()])
  const integer = (value: bigint | number): string =>
    plain ? String(value) : draw.pick([String(value), String(value), `0${value}`, `%2B${value}`])
  const query = (...given: Array<readonly [name: string, value: string | undefined]>): string => {
    const named = given.flatMap(([name, value]) => value === undefined ? [] : [`${name}=${value}`])
    const all = plain ? named : draw.shuffled(draw.happens(0.1) ? [...named, 'unknown=1'] : named)
    return all.length === 0 ? '' : `?${all.join('&')}`
  }
  const whole = (value: bigint | number | undefined): string | undefined =>
    value === undefined ? undefined : integer(value)
  const get = (target: string): ModelRequest => ({
    method: 'GET',
    target,
    headers: acceptOf(wish, plain, draw),
    body: undefined
  })
  switch (wish.kind) {
    case 'table': {
      const body = bodyOf(wish, plain ? 0 : draw.integerBelow(3))
      return {
        method: 'POST',
        target: `/v1/tables/${address(wish.handle)}/item${query(['ledger_version', whole(wish.version)])}`,
        headers: { ...acceptOf(wish, plain, draw), 'content-type': 'application/json' },
        body
      }
    }
    case 'modules':
      return get(
        `/v1/accounts/${address(wish.account)}/modules${
          query(['ledger_version', whole(wish.version)], ['limit', whole(wish.limit)], ['start', wish.cursor])
        }`
      )
    case 'block':
      return get(
        `/v1/blocks/by_version/${integer(wish.version)}${
          query(['with_transactions', wish.hasTransactions ? 'true' : draw.pick([undefined, 'false'])])
        }`
      )
    case 'events': {
      const [account, tag, field] = streams[wish.stream]
      const spelt = encodeURIComponent(!plain && draw.happens(0.4) ? tag.replaceAll('0x1::', '0x01::') : tag)
      return get(
        `/v1/accounts/${address(account)}/events/${spelt}/${field}${
          query(['start', whole(wish.start)], ['limit', whole(wish.limit)])
        }`
      )
    }
    case 'gas':
      return get('/v1/estimate_gas_price')
    case 'info':
      return get('/v1/info')
    case 'nonsense':
      return get(
        draw.pick([
          '/v1/accounts/0Xzz/modules',
          '/v1/blocks/by_version/-1',
          '/v1/accounts/0x1/modules?ledger_version=1.5',
          '/v1/blocks/by_version/7?with_transactions=True'
        ])
      )
  }
}

function acceptOf ({ form }: ReadSpec, plain: boolean, draw: SeededRandom): Record<string, string> {
  if (form === 'bcs') return { accept: 'application/x-bcs' }
  const accept = plain
    ? undefined
    : draw.pick([
      undefined,
      'application/json',
      '*/*',
      'application/json, application/x-bcs',
      'text/html, application/json;q=0.9'
    ])
  return accept === undefined ? {} : { accept }
}

function bodyOf ({ keyType, key, valueType }: ReadSpec & { kind: 'table' }, way: number): string {
  const types = [`"key_type":${JSON.stringify(keyType)}`, `"value_type":${JSON.stringify(valueType)}`]
  switch (way) {
    case 0:
      return `{${types.join(',')},"key":${key}}`
    case 1:
      return `{ "key" : ${keyType === 'u64' ? key.replace('"', '"00') : key} , ${types.join(' , ')} }`
    default:
      return `{${types.reverse().join(',')},"more":1,"key":${key}}`
  }
}
