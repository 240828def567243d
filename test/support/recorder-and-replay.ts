import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'
import { type RecordedExchange } from '../../src/tools/recording/recording-format.js'
import { type Command, startCommand } from '../cli/command.js'

/** A recorder that runs in this process. */
export interface RunningRecorder {
  readonly url: string
  readonly file: string
  readonly command: Command
  /** What it has written so far of what was asked, the index that it asks for by itself apart. */
  exchanges(): RecordedExchange[]
  /** Ends it as Ctrl-C does, with its code. */
  stop(): Promise<number>
}

/** A replayed node that runs in this process. */
export interface RunningReplay {
  readonly url: string
  readonly command: Command
  stop(): Promise<number>
}

/** Records what a node is asked. */
export async function startRecorder (
  t: Test,
  nodeUrl: string,
  flags: readonly string[] = [],
  environment: Record<string, string> = {}
): Promise<RunningRecorder> {
  const file = join(t.testdir(), 'report.jsonl')
  const command = startCommand(
    t,
    ['record', '--upstream', nodeUrl, '--out', file, '--listen', '127.0.0.1:0', ...flags],
    {
      environment
    }
  )
  const [, url = ''] = await command.waitForOutput(/varve record: (\S+) passes on/)
  return { url, file, command, exchanges: () => exchangesIn(file), stop: async () => await ended(command) }
}

/** A node that answers from a file. */
export async function startReplay (t: Test, file: string, flags: readonly string[] = []): Promise<RunningReplay> {
  const command = startCommand(t, ['replay', file, '--listen', '127.0.0.1:0', ...flags])
  const [, url = ''] = await command.waitForOutput(/varve replay: (\S+) answers/)
  return { url, command, stop: async () => await ended(command) }
}

/** The questions and answers of a file, those apart that the recorder asked by itself. */
export function exchangesIn (file: string): RecordedExchange[] {
  const lines = readFileSync(file, 'utf8').split('\n').slice(1, -1).map(line => JSON.parse(line) as RecordedExchange)
  return lines.filter(({ request: { headers } }) => !headers.some(([, value]) => value === 'varve-record'))
}

async function ended (command: Command): Promise<number> {
  command.signal('SIGINT')
  return await command.code
}
