import { once } from 'node:events'
import { request } from 'node:http'
import { indexTarget } from '../api/request-targets.js'
import { SecretMasker } from '../config/secret-masker.js'
import { ConfigError } from '../config/config-error.js'
import { mistakesFromIssues } from '../config/mistakes.js'
import { resolveReferences } from '../config/references.js'
import { type Config, configSchema } from '../config/schema.js'
import { hostAndPort, isAddress } from '../config/value-checks.js'
import { isNameLike, maskUrl, shownPath } from '../config/secrets.js'
import { recordingFormat } from '../tools/recording/recording-format.js'
import { openListener } from '../tools/recording/open-listener.js'
import { Recorder } from '../tools/recording/recorder.js'
import { FileExistsError, RecordingWriter } from '../tools/recording/recording-writer.js'
import { MemoryLimit } from '../tools/recording/gathered-body.js'
import { secretsOfUpstream } from '../tools/recording/redact-secrets.js'
import { RelayClient } from '../tools/recording/relay-client.js'
import { formatBytes, formatCount, groupDigits, formatDuration } from '../tools/warm/format-progress.js'
import { waitForStopSignal } from '../app/process-exit.js'
import { OnceLogger } from '../tools/recording/once-logger.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { listenError } from '../app/listen-error.js'
import { versionOfProgram } from '../app/version.js'

/** Unparsed flags of `record`. */
export interface RecordFlags {
  readonly upstream?: string
  readonly out?: string
  readonly listen?: string
  readonly header?: readonly string[]
  readonly force?: boolean
  readonly 'max-body-mb'?: string
  readonly 'max-mb'?: string
}

const bytesPerMb = 1024 * 1024
const defaultListen = '127.0.0.1:8082'
// Limit for gathered bodies and for lines that wait for the disk (law 10: nothing grows without bound).
const maxBufferedBytes = 256 * bytesPerMb
// Covers the time of a normal read, so that requests in flight finish at a stop.
const graceMs = 3000

/** Forwards requests to an upstream and records requests and responses in a file until a stop signal. */
export async function record (flags: RecordFlags, io: Io): Promise<ExitCode> {
  const { upstream: url, out: file, listen: address = defaultListen } = flags
  if (url === undefined || file === undefined) throw new UsageError('record takes --upstream URL and --out FILE')
  if (!isAddress(address)) throw new UsageError(`--listen expects HOST:PORT, got ${address}`)
  const maxBodyBytes = bytesFlag('max-body-mb', flags['max-body-mb'], 16, 64)
  const maxBytes = bytesFlag('max-mb', flags['max-mb'], 256, 100_000)
  const { config, node: upstreamConfig } = upstreamOf(url, flags.header ?? [], io)
  const masker = new SecretMasker(config)
  const onceLogger = new OnceLogger(text => {
    io.err(masker.mask(text))
  })
  const now = (): number => performance.now()
  const startedAt = now()
  const stopped = waitForStopSignal(io, now)
  const upstream = new RelayClient(upstreamConfig)
  const memory = new MemoryLimit(maxBufferedBytes)
  const failure = new AbortController()
  const failed = once(failure.signal, 'abort')
  const recorder = new Recorder({
    upstream,
    createFile: async () =>
      await RecordingWriter.create({
        file,
        isForced: flags.force === true,
        maxBytes,
        memory,
        onFailure: error => {
          failure.abort(error)
        }
      }, {
        form: recordingFormat.name,
        version: recordingFormat.version,
        made: new Date(performance.timeOrigin + startedAt).toISOString(),
        by: `varve ${versionOfProgram()}`
      }),
    secrets: secretsOfUpstream(upstreamConfig.url, upstreamConfig.headers),
    maxBodyBytes,
    memory,
    now,
    onUnreachable: (what, why) => {
      onceLogger.log(`upstream does not respond: ${what}: ${why}`)
    }
  })
  const listener = await openListener(hostAndPort(address), recorder.record).catch((error: unknown) => {
    throw listenError(address, { key: '--listen', flag: '--listen' }, error as Error)
  })
  try {
    const recordingFile = await recorder.file
    io.out(
      `varve record: ${listener.url} forwards to ${
        maskUrl(upstreamConfig.url)
      }, and writes to ${file}\n  curl -i ${listener.url}${indexTarget}\n  varve serve --upstream ${listener.url}\n`
    )
    fetchIndex(listener.url)
    await Promise.race([stopped, failed])
    await listener.close(graceMs)
    await recorder.waitUntilIdle()
    await recordingFile.close()
    io.out(summaryOf(recordingFile, file, now() - startedAt, maxBytes))
    failure.signal.throwIfAborted()
    return exitCodes.ok
  } catch (error) {
    throw error instanceof FileExistsError ? new UsageError(error.message) : error
  } finally {
    await listener.close(0)
    upstream.close()
  }
}

/** Validates the upstream flags by the rules of the configuration, so both reject the same addresses and headers. */
function upstreamOf (
  url: string,
  headers: readonly string[],
  io: Io
): { config: Config, node: Config['upstreams'][number] } {
  const { value: tree, badReferences } = resolveReferences({
    upstreams: [{ url, headers: Object.fromEntries(headers.map(parseHeaderFlag)) }]
  }, io.environment)
  const { data: config, error } = configSchema.safeParse(tree)
  const upstream = config?.upstreams[0]
  if (config === undefined || upstream === undefined || badReferences.length > 0) {
    throw new ConfigError([
      ...badReferences.map(({ path, message }) => ({ path: shownPath(path), message })),
      ...mistakesFromIssues(error?.issues ?? [], tree, new Map([['upstreams.0.url', '--upstream']]))
    ])
  }
  return { config, node: upstream }
}

function parseHeaderFlag (text: string): [string, string] {
  const [, name, value] = /^([^\s:]+):\s*([^]*?)\s*$/.exec(text) ?? []
  // Text without a header name may be the secret itself, so the error omits it.
  if (name === undefined || value === undefined) {
    throw new UsageError(`--header expects 'NAME: VALUE'${isNameLike(text) ? `, got ${text}` : ''}`)
  }
  return [name, value]
}

function bytesFlag (flag: string, text: string | undefined, defaultMb: number, maxMb: number): number {
  if (text === undefined) return defaultMb * bytesPerMb
  if (!/^[0-9]{1,6}$/.test(text) || Number(text) > maxMb || Number(text) === 0) {
    throw new UsageError(`--${flag} expects a whole number from 1 to ${maxMb}, got ${text}`)
  }
  return Number(text) * bytesPerMb
}

/** Fetches the index, because varve needs the chain id and position from every recording. */
function fetchIndex (url: string): void {
  request(
    `${url}${indexTarget}`,
    { agent: false, headers: { accept: 'application/json', 'user-agent': 'varve-record' } },
    response => {
      response.resume()
    }
  ).on('error', () => {}).end()
}

function summaryOf (
  { lines, bytes, skippedLines, isFull }: RecordingWriter,
  file: string,
  tookMs: number,
  maxBytes: number
): string {
  return `${formatCount(lines, 'request with its response', 'requests with their responses')} in ${
    formatDuration(tookMs)
  }, ${formatBytes(bytes)}: ${file}\n` +
    (skippedLines > 0
      ? `  left out: ${groupDigits(skippedLines)}, since ${
        isFull
          ? `the file has reached its limit (--max-mb ${maxBytes / bytesPerMb})`
          : `the disk could not store ${skippedLines === 1 ? 'it' : 'them'}`
      }\n`
      : '')
}
