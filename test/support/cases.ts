import { readFileSync } from 'node:fs'

/** Returns the cases of a file in test/cases, one per line. */
export function casesIn<Case> (file: string): Case[] {
  return readFileSync(`test/cases/${file}`, 'utf8').trim().split('\n').map(line => JSON.parse(line) as Case)
}

/** Returns the texts of test/cases/invalid-texts.jsonl that look like a kind of value, and are none. */
export function invalidTexts (kind: 'address' | 'u64' | 'type tag' | 'JSON'): string[] {
  return casesIn<{ kind: string, text: string }>('invalid-texts.jsonl').filter(each => each.kind === kind).map((
    { text }
  ) => text)
}

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
