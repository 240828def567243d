import { type Ledger } from '../../../sandbox/ledger.js'
import { type RawResponse } from './raw-connections.js'

/** Position on a response. */
export interface FuzzPosition {
  readonly height: number
  readonly version: bigint
  readonly oldest: number
}

const names = [
  'chain-id',
  'ledger-version',
  'ledger-oldest-version',
  'ledger-timestampusec',
  'epoch',
  'block-height',
  'oldest-block-height'
] as const

/** Returns the position on a response; a text if it is malformed, undefined if there is none. */
export function fuzzPositionOf ({ headers }: RawResponse, archive: Ledger): FuzzPosition | string | undefined {
  const lines = names.map(name => headers[`x-node-${name}`])
  const theirs = names.map(name => headers[`x-aptos-${name}`])
  if (lines.some((line, at) => line !== theirs[at])) return 'the two families of names say different things'
  if (lines.every(line => line === undefined)) return undefined
  if (lines.some(line => line === undefined || !/^\d+$/.test(line))) {
    return `a position that is not whole: ${lines.join(' ')}`
  }
  const [id, version = 0n, oldestVersion, time, epoch, height = 0n, oldest = 0n] = lines.map(line =>
    BigInt(String(line))
  )
  if (height > archive.height || oldest > height) return `a position that the chain has not got to: ${lines.join(' ')}`
  const told = archive.position(Number(height))
  if (id !== BigInt(told.chainId) || version !== told.version || time !== told.timestampUsec || epoch !== told.epoch) {
    return `the lines of the head do not belong together: ${lines.join(' ')}`
  }
  if (archive.block(oldest).firstVersion !== oldestVersion) {
    return `the lines of the oldest do not belong together: ${lines.join(' ')}`
  }
  return { height: Number(height), version, oldest: Number(oldest) }
}
