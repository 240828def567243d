import { request } from 'node:http'
import { Masking } from '../config/masking.js'
import { ConfigError, mistakesIn } from '../config/mistakes.js'
import { resolveReferences } from '../config/references.js'
import { type Config, configSchema, hostAndPort, isAddress } from '../config/schema.js'
import { isNameLike, maskUrl, shownPath } from '../config/secrets.js'
import { form } from '../tools/recording/form.js'
import { listen } from '../tools/recording/listening.js'
import { Recorder } from '../tools/recording/recorder.js'
import { AlreadyThere, RecordingFile } from '../tools/recording/recording-file.js'
import { Room } from '../tools/recording/room.js'
import { secretsOfUpstream } from '../tools/recording/secrets.js'
import { Upstream } from '../tools/recording/upstream.js'
import { bytesIn, counted, grouped, timeIn } from '../tools/warm/progress.js'
import { toldToStop } from '../app/faults.js'
import { FewLines } from '../tools/recording/few-lines.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { listenFault } from '../app/listen-fault.js'
import { versionOfProgram } from '../app/version.js'

/** The flags of `record`, as they were typed. */
export interface RecordFlags {
  readonly upstream?: string
  readonly out?: string
  readonly listen?: string
  readonly header?: readonly string[]
  readonly force?: boolean
  readonly 'max-body-mb'?: string
  readonly 'max-mb'?: string
}

const mega = 1024 * 1024
const defaultListen = '127.0.0.1:8082'
// Bodies that are gathered, and lines that wait for the disk.
const roomBytes = 256 * mega
// As long as a read takes that is answered at all.
const graceMs = 3000

/** Passes on what comes to a node, and writes questions and answers to a file, until it is told to stop. */
export async function record (flags: RecordFlags, io: Io): Promise<ExitCode> {
  const { upstream: url, out: file, listen: address = defaultListen } = flags
  if (url === undefined || file === undefined) throw new UsageError('record takes --upstream URL and --out FILE')
  if (!isAddress(address)) throw new UsageError(`--listen expects HOST:PORT, got ${address}`)
  const longestBody = megabytes('max-body-mb', flags['max-body-mb'], 16, 64)
  const mostBytes = megabytes('max-mb', flags['max-mb'], 256, 100_000)
  const { config, node } = nodeOf(url, flags.header ?? [], io)
  const masking = new Masking(config)
  const few = new FewLines(text => {
    io.err(masking.mask(text))
  })
  const now = (): number => performance.now()
  const began = now()
  const stopped = toldToStop(io, now)
  const upstream = new Upstream(node)
  const room = new Room(roomBytes)
  let failure: Error | undefined
  let fail: () => void = () => {}
  const failed = new Promise<void>(resolve => {
    fail = resolve
  })
  const listening = listen(hostAndPort(address), (question, response) => {
    recorder.take(question, response)
  })
  const recording = listening.then(async () =>
    await RecordingFile.create({
      file,
      isForced: flags.force === true,
      mostBytes,
      room,
      onFailure: error => {
        failure = error
        fail()
      }
    }, {
      form: form.name,
      version: form.version,
      made: new Date(performance.timeOrigin + began).toISOString(),
      by: `varve ${versionOfProgram()}`
    })
  )
  const recorder = new Recorder({
    upstream,
    recording,
    secrets: secretsOfUpstream(node.url, node.headers),
    longestBody,
    room,
    now,
    onUnanswered: (what, why) => {
      few.add(`the node does not answer ${what}: ${why}`)
    }
  })
  const open = await listening.catch((error: unknown) => {
    recording.catch(() => {})
    throw listenFault(address, { key: '--listen', flag: '--listen' }, error as Error)
  })
  try {
    const written = await recording
    io.out(
      `varve record: ${open.url} passes on to ${
        maskUrl(node.url)
      }, and writes to ${file}\n  curl -i ${open.url}/v1\n  varve serve --upstream ${open.url}\n`
    )
    askForIndex(open.url)
    await Promise.race([stopped, failed])
    await open.close(graceMs)
    await recorder.idle()
    await written.close()
    io.out(summaryOf(written, file, now() - began, mostBytes))
    if (failure !== undefined) throw failure
    return exitCodes.ok
  } catch (error) {
    throw error instanceof AlreadyThere ? new UsageError(error.message) : error
  } finally {
    await open.close(0)
    upstream.close()
  }
}

/**
 * The node as a configuration would have it, so that an address or a header is refused here for what it is refused for
 * there.
 */
function nodeOf (
  url: string,
  headers: readonly string[],
  io: Io
): { config: Config, node: Config['upstreams'][number] } {
  const { value: tree, faults } = resolveReferences({
    upstreams: [{ url, headers: Object.fromEntries(headers.map(headerOf)) }]
  }, io.environment)
  const { data: config, error } = configSchema.safeParse(tree)
  const node = config?.upstreams[0]
  if (config === undefined || node === undefined || faults.length > 0) {
    throw new ConfigError([
      ...faults.map(({ path, message }) => ({ path: shownPath(path), message })),
      ...mistakesIn(error?.issues ?? [], tree, new Map([['upstreams.0.url', '--upstream']]))
    ])
  }
  return { config, node }
}

function headerOf (text: string): [string, string] {
  const [, name, value] = /^([^\s:]+):\s*([^]*?)\s*$/.exec(text) ?? []
  // A value without a name may be the secret itself.
  if (name === undefined || value === undefined) {
    throw new UsageError(`--header expects 'NAME: VALUE'${isNameLike(text) ? `, got ${text}` : ''}`)
  }
  return [name, value]
}

function megabytes (flag: string, text: string | undefined, otherwise: number, most: number): number {
  if (text === undefined) return otherwise * mega
  if (!/^[0-9]{1,6}$/.test(text) || Number(text) > most || Number(text) === 0) {
    throw new UsageError(`--${flag} expects a whole number from 1 to ${most}, got ${text}`)
  }
  return Number(text) * mega
}

/** Where the node stood is in every recording, or a varve before it would not know of which chain it is. */
function askForIndex (url: string): void {
  request(
    `${url}/v1`,
    { agent: false, headers: { accept: 'application/json', 'user-agent': 'varve-record' } },
    answer => {
      answer.resume()
    }
  ).on('error', () => {}).end()
}

function summaryOf (
  { lines, bytes, leftOut, isFull }: RecordingFile,
  file: string,
  tookMs: number,
  mostBytes: number
): string {
  return `${counted(lines, 'question with its answer', 'questions with their answers')} in ${timeIn(tookMs)}, ${
    bytesIn(bytes)
  }: ${file}\n` +
    (leftOut > 0
      ? `  left out: ${grouped(leftOut)}, since ${
        isFull
          ? `the file is as long as it may be (--max-mb ${mostBytes / mega})`
          : `the disk did not take ${leftOut === 1 ? 'it' : 'them'}`
      }\n`
      : '')
}
