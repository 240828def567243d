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
