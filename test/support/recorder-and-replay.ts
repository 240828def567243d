import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'
import { type RecordedExchange } from '../../src/tools/recording/recording-format.js'
import { type Command, startCommand } from '../cli/command.js'

/** A recorder in this process. */
export interface RunningRecorder {
  readonly url: string
  readonly file: string
  readonly command: Command
  /** Returns the recorded exchanges so far, without the recorder's own polls. */
  exchanges(): RecordedExchange[]
  /** Stops it as Ctrl-C does; resolves with its exit code. */
  stop(): Promise<number>
}

/** A replayed node in this process. */
export interface RunningReplay {
  readonly url: string
  readonly command: Command
  stop(): Promise<number>
}

/** Starts a recorder in front of a node. */
export async function startRecorder (
  t: Test,
  upstreamUrl: string,
  flags: readonly string[] = [],
  environment: Record<string, string> = {}
): Promise<RunningRecorder> {
  const file = join(t.testdir(), 'report.jsonl')
  const command = startCommand(
    t,
    ['record', '--upstream', upstreamUrl, '--out', file, '--listen', '127.0.0.1:0', ...flags],
    {
      environment
    }
  )
  const [, url = ''] = await command.waitForOutput(/varve record: (\S+) forwards to/)
  return { url, file, command, exchanges: () => exchangesIn(file), stop: async () => await ended(command) }
}

/** Starts a node that responds from a recording. */
export async function startReplay (t: Test, file: string, flags: readonly string[] = []): Promise<RunningReplay> {
  const command = startCommand(t, ['replay', file, '--listen', '127.0.0.1:0', ...flags])
  const [, url = ''] = await command.waitForOutput(/varve replay: (\S+) serves/)
  return { url, command, stop: async () => await ended(command) }
}

/** Returns the exchanges of a file, without the recorder's own polls. */
export function exchangesIn (file: string): RecordedExchange[] {
  const lines = readFileSync(file, 'utf8').split('\n').slice(1, -1).map(line => JSON.parse(line) as RecordedExchange)
  return lines.filter(({ request: { headers } }) => !headers.some(([, value]) => value === 'varve-record'))
}

async function ended (command: Command): Promise<number> {
  command.signal('SIGINT')
  return await command.code
}
