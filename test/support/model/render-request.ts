import { latin1Of, type ModelRequest } from './request.js'
import { type ReadSpec, stateKeys, states, streams, views } from './read-spec.js'
import { type SeededRandom } from './seeded-random.js'

/** Request variant: 0 is the plainest of each choice. */
export interface RequestStyle {
  readonly address: number
  readonly integer: number
  readonly tag: number
  readonly escape: number
  readonly query: number
  readonly accept: number
  readonly json: number
  readonly key: number
  readonly isHead: boolean
}

const plainStyle: RequestStyle = {
  address: 0,
  integer: 0,
  tag: 0,
  escape: 0,
  query: 0,
  accept: 0,
  json: 0,
  key: 0,
  isHead: false
}

/** Draws a style; some are rejected in a query. */
export function drawStyle (chance: SeededRandom): RequestStyle {
  return chance.happens(0.4) ? plainStyle : {
    address: chance.integerBelow(7),
    integer: chance.integerBelow(7),
    tag: chance.integerBelow(7),
    escape: chance.integerBelow(4),
    query: chance.integerBelow(7),
    accept: chance.integerBelow(6),
    json: chance.integerBelow(6),
    key: chance.integerBelow(4),
    isHead: chance.happens(1 / 13)
  }
}

const pick = <T>(list: readonly [T, ...T[]], at: number): T => list[at % list.length] ?? list[0]

const addressOf = (digits: string, at: number): string =>
  pick([
    `0x${digits}`,
    digits,
    `0x0${digits}`,
    `0x${digits.padStart(64, '0')}`,
    digits.toUpperCase(),
    `0x${digits.toUpperCase().padStart(63, '0')}`,
    `%30x${digits}`
  ], at)
const integerOf = (value: bigint | number, at: number): string =>
  pick([
    String(value),
    String(value),
    `0${value}`,
    `%2B${value}`,
    `%3${String(value).slice(0, 1)}${String(value).slice(1)}`,
    `%2B00000000000000000000000${value}`,
    `+${value}`
  ], at)

const tagOf = (tag: string, at: number): string =>
  pick([
    tag,
    tag.replaceAll('::', ' :: '),
    tag.replaceAll('0x', '0X'),
    tag.replace(/0x([0-9a-f]+)/g, (_, digits: string) => `0x${digits.padStart(64, '0')}`),
    tag.replaceAll('>', ',>'),
    ` ${tag.replaceAll('<', ' < ')}\t`,
    tag.replace(/0x([0-9a-f]+)/g, (_, digits: string) => `0x00${digits.toUpperCase()}`)
  ], at)

const escaped = (text: string, at: number): string => {
  const once = encodeURIComponent(text)
  return pick([
    once,
    encodeURIComponent(once),
    once.replaceAll('%3A', ':'),
    once.replace(/[a-z]/, letter => `%${letter.charCodeAt(0).toString(16)}`)
  ], at)
}

const jsonTypes = [
  undefined,
  'application/json',
  '*/*',
  'application/x-bcs;q=1',
  'text/html, application/json;q=0.9',
  'APPLICATION/JSON, application/x-bcs'
] as const
const bcsTypes = [
  'application/x-bcs',
  'APPLICATION/X-BCS, application/json',
  'text/html, application/x-bcs',
  ' application/x-bcs ,application/json',
  'application/json;q=1,application/x-bcs',
  'application/x-bcs'
] as const

const contentTypes = [
  'application/json',
  'application/json; charset=utf-8',
  'Application/JSON',
  'application/x+json'
] as const

const queryOf = (named: ReadonlyArray<readonly [string, string | undefined]>, at: number): string => {
  const all = named.flatMap(([name, value]) =>
    value === undefined ? [] : [`${at === 5 ? name.replace('_', '%5F').replace('l', '%6c') : name}=${value}`]
  )
  if (at === 1 || at === 4) all.reverse()
  if (at === 2 || at === 4) all.push('unknown=1')
  if (at === 3) all.unshift('Ledger_Version=5', '')
  return all.length === 0 ? '' : `?${all.join('&')}${at === 6 ? '&' : ''}`
}

const bodyOf = (plain: ReadSpec & { kind: 'table' }, how: RequestStyle): string => {
  const text = (tag: string): string => JSON.stringify(how.json === 4 ? tag : tagOf(tag, how.tag))
  const members = [
    `"key_type":${text(plain.keyType)}`,
    `"value_type":${text(plain.valueType)}`,
    `"key":${plain.keys[how.key % plain.keys.length] ?? 'null'}`
  ]
  if (how.json === 2 || how.json === 3) members.reverse()
  if (how.json === 3) members.push('"junk" : [1, {"key":2}]')
  const whole = how.json === 1 ? `{ ${members.join(' ,\n ')} }` : `{${members.join(',')}}`
  return how.json === 5 ? whole.replace('"key_type"', '"\\u006bey_type"') : whole
}

const viewBody = ([name, types, args]: typeof views[number], how: RequestStyle): string => {
  const members = [
    `"function":${JSON.stringify(how.tag === 3 ? name.replace('0x', '0x00') : name)}`,
    `"type_arguments":[${types.map(type => JSON.stringify(tagOf(type, how.json === 4 ? 0 : how.tag))).join()}]`,
    `"arguments":[${args.join(how.json === 1 ? ' , ' : ',')}]`
  ]
  if (how.json === 2 || how.json === 3) members.reverse()
  return how.json === 1 ? `{ ${members.join(' ,\n ')} }` : `{${members.join(',')}}`
}

/** Renders the plainest request of a read. */
export const plainRequest = (read: ReadSpec): ModelRequest => renderRequest(read, plainStyle)

/** Renders a request variant of a read. */
export function renderRequest (plain: ReadSpec, how: RequestStyle): ModelRequest {
  const accept = pick(plain.form === 'bcs' || plain.kind === 'value' ? bcsTypes : jsonTypes, how.accept)
  const headers: Array<[string, string]> = accept === undefined ? [] : [['accept', accept]]
  const get = (target: string): ModelRequest => ({ method: how.isHead ? 'HEAD' : 'GET', target, headers })
  const integer = (value: bigint | number | undefined): string | undefined =>
    value === undefined ? undefined : integerOf(value, how.integer)
  switch (plain.kind) {
    case 'table':
      return {
        method: 'POST',
        target: `/v1/tables/${addressOf(plain.handle, how.address)}/item${
          queryOf([['ledger_version', integer(plain.version)]], how.query)
        }`,
        headers: [...headers, ['content-type', pick(contentTypes, how.json)]],
        body: latin1Of(bodyOf(plain, how))
      }
    case 'modules':
      return get(
        `/v1/accounts/${addressOf(plain.account, how.address)}/modules${
          queryOf([['ledger_version', integer(plain.version)], ['limit', integer(plain.limit)], [
            'start',
            how.integer === 4 ? plain.cursor?.toUpperCase() : plain.cursor
          ]], how.query)
        }`
      )
    case 'events': {
      const [account, handle, field] = streams[plain.stream]
      return get(
        `/v1/accounts/${addressOf(account, how.address)}/events/${
          escaped(tagOf(handle, how.tag), how.escape)
        }/${field}${queryOf([['start', integer(plain.start)], ['limit', integer(plain.limit)]], how.query)}`
      )
    }
    case 'block':
      return get(
        `/v1/blocks/by_version/${integerOf(plain.version, how.integer)}${
          queryOf([['with_transactions', plain.transactions]], how.query)
        }`
      )
    case 'state': {
      const [what, last] = states[plain.of] ?? ['']
      const segment = last === undefined
        ? ''
        : `/${last.includes('::') ? escaped(tagOf(last, how.tag), how.escape) : last}`
      return get(
        `/v1/accounts/${addressOf(plain.account, how.address)}${what}${segment}${
          queryOf([['ledger_version', integer(plain.version)]], how.query)
        }`
      )
    }
    case 'view':
      return {
        method: 'POST',
        target: `/v1/view${queryOf([['ledger_version', integer(plain.version)]], how.query)}`,
        headers: [...headers, ['content-type', pick(contentTypes, how.json)]],
        body: latin1Of(viewBody(views[plain.of] ?? ['', [], []], how))
      }
    case 'value': {
      const key = stateKeys[plain.of] ?? ''
      return {
        method: 'POST',
        target: `/v1/experimental/state_values/raw${queryOf([['ledger_version', integer(plain.version)]], how.query)}`,
        headers: [...headers, ['content-type', pick(contentTypes, how.json)]],
        body: JSON.stringify({ key: pick([`0x${key}`, key, key.toUpperCase(), `0x${key.toUpperCase()}`], how.key) })
      }
    }
    case 'height':
      return get(
        `/v1/blocks/by_height/${integerOf(plain.height, how.integer)}${
          queryOf([['with_transactions', plain.transactions]], how.query)
        }`
      )
    case 'transaction':
      return get(
        plain.hash === undefined
          ? `/v1/transactions/by_version/${integerOf(plain.version, how.integer)}`
          : `/v1/transactions/by_hash/${
            pick([
              plain.hash,
              plain.hash.slice(2),
              `0x${plain.hash.slice(2).toUpperCase()}`,
              `%30${plain.hash.slice(1)}`
            ], how.address)
          }`
      )
    case 'list':
      return get(
        `/v1/transactions${queryOf([['start', integer(plain.start)], ['limit', integer(plain.limit)]], how.query)}`
      )
    case 'path':
      return get(plain.target)
  }
}
