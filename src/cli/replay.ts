import { createReadStream } from 'node:fs'
import { indexTarget } from '../api/request-targets.js'
import { hostAndPort, isAddress } from '../config/value-checks.js'
import { openListener } from '../tools/recording/open-listener.js'
import { InvalidRecordingError, readRecording, type Recording } from '../tools/recording/read-recording.js'
import { ReplayServer } from '../tools/recording/replay-server.js'
import { RecordedResponses } from '../tools/recording/recorded-responses.js'
import { formatCount, groupDigits } from '../tools/warm/format-progress.js'
import { waitForStopSignal } from '../app/process-exit.js'
import { OnceLogger } from '../tools/recording/once-logger.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { listenError } from '../app/listen-error.js'

/** Unparsed flags of `replay`. */
export interface ReplayFlags {
  readonly listen?: string
  readonly timing?: boolean
}

const defaultListen = '127.0.0.1:8081'

/** Serves recorded responses from a file of `record` until a stop signal. */
export async function replay (flags: ReplayFlags, files: readonly string[], io: Io): Promise<ExitCode> {
  const [file, ...others] = files
  const { listen: address = defaultListen, timing = false } = flags
  if (file === undefined || others.length > 0) {
    throw new UsageError('replay takes one file that varve record has written')
  }
  if (!isAddress(address)) throw new UsageError(`--listen expects HOST:PORT, got ${address}`)
  const stopped = waitForStopSignal(io, () => performance.now())
  const recording = await readRecordingFile(file, io)
  if (recording === undefined) return exitCodes.misused
  const responses = new RecordedResponses(recording.exchanges)
  const onceLogger = new OnceLogger(text => {
    io.err(text)
  })
  const server = new ReplayServer({
    responses,
    isTimed: timing,
    onMissing: (what, why) => {
      onceLogger.log(`not answered: ${what}: ${why}`)
    }
  })
  const listener = await openListener(hostAndPort(address), (request, response) => {
    server.respond(request, response).catch(() => {
      request.socket.destroy()
    })
  })
    .catch((error: unknown) => {
      throw listenError(address, { key: '--listen', flag: '--listen' }, error as Error)
    })
  io.out(
    `varve replay: ${listener.url} serves the responses of ${file}\n  ${startTextOf(recording, responses)}\n${
      recording.isTorn ? '  its last line is incomplete and ignored\n' : ''
    }  curl -i ${listener.url}${indexTarget}\n  varve serve --upstream ${listener.url}\n`
  )
  await stopped
  await listener.close(0)
  io.out(summaryOf(server, responses))
  return exitCodes.ok
}

async function readRecordingFile (file: string, io: Io): Promise<Recording | undefined> {
  try {
    return await readRecording(createReadStream(file))
  } catch (error) {
    if (!(error instanceof InvalidRecordingError)) {
      throw new Error(`${file} cannot be read: ${(error as Error).message}`, { cause: error })
    }
    io.err(
      `varve: ${file} is not a recording that varve replay can read:\n${
        error.mistakes.map(({ line, expected }) => `  line ${line}: ${expected}\n`).join('')
      }`
    )
    return undefined
  }
}

function startTextOf ({ exchanges, made, by }: Recording, { requestCount }: RecordedResponses): string {
  return `${formatCount(exchanges.length, 'response')} to ${
    formatCount(requestCount, 'request')
  }, recorded by ${by} from ${made} on`
}

function summaryOf ({ answered, missing }: ReplayServer, { unusedCount }: RecordedResponses): string {
  return `${formatCount(answered + missing, 'request')}: ${groupDigits(answered)} answered, ${
    groupDigits(missing)
  } not in the recording; ${groupDigits(unusedCount)} of its responses ${
    unusedCount === 1 ? 'was' : 'were'
  } never requested\n`
}
