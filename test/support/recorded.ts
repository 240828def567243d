import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'
import { type Pair } from '../../src/tools/recording/form.js'
import { type Command, start } from '../cli/command.js'

/** A recorder that runs in this process. */
export interface Recording {
  readonly url: string
  readonly file: string
  readonly command: Command
  /** What it has written so far of what was asked, the index that it asks for by itself apart. */
  pairs(): Pair[]
  /** Ends it as Ctrl-C does, with its code. */
  end(): Promise<number>
}

/** A replayed node that runs in this process. */
export interface Replayed {
  readonly url: string
  readonly command: Command
  end(): Promise<number>
}

/** Records what a node is asked. */
export async function recorded (
  t: Test,
  nodeUrl: string,
  flags: readonly string[] = [],
  environment: Record<string, string> = {}
): Promise<Recording> {
  const file = join(t.testdir(), 'report.jsonl')
  const command = start(t, ['record', '--upstream', nodeUrl, '--out', file, '--listen', '127.0.0.1:0', ...flags], {
    environment
  })
  const [, url = ''] = await command.saw(/varve record: (\S+) passes on/)
  return { url, file, command, pairs: () => pairsIn(file), end: async () => await ended(command) }
}

/** A node that answers from a file. */
export async function replayed (t: Test, file: string, flags: readonly string[] = []): Promise<Replayed> {
  const command = start(t, ['replay', file, '--listen', '127.0.0.1:0', ...flags])
  const [, url = ''] = await command.saw(/varve replay: (\S+) answers/)
  return { url, command, end: async () => await ended(command) }
}

/** The questions and answers of a file, those apart that the recorder asked by itself. */
export function pairsIn (file: string): Pair[] {
  const lines = readFileSync(file, 'utf8').split('\n').slice(1, -1).map(line => JSON.parse(line) as Pair)
  return lines.filter(({ request: { headers } }) => !headers.some(([, value]) => value === 'varve-record'))
}

async function ended (command: Command): Promise<number> {
  command.signal('SIGINT')
  return await command.code
}
