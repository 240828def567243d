import { readFileSync } from 'node:fs'

/** Change of a committed transaction of a public network, with the hash that the node gave its state key. */
export interface RealChange {
  readonly kind: string
  readonly hash: string
  readonly address?: string
  readonly tag?: string
  readonly module?: string
  readonly handle?: string
  readonly key?: string
  readonly key_type?: string
  readonly json_key?: unknown
}

/** Every change of test/cases/state-keys.jsonl. */
export const realChanges: readonly RealChange[] = readFileSync('test/cases/state-keys.jsonl', 'utf8')
  .trim().split('\n').map(line => JSON.parse(line) as RealChange)
