import { createReadStream } from 'node:fs'
import { hostAndPort, isAddress } from '../config/schema.js'
import { listen } from '../tools/recording/listening.js'
import { NoRecording, readRecording, type Recording } from '../tools/recording/reading.js'
import { ReplayedNode } from '../tools/recording/replayed-node.js'
import { Tape } from '../tools/recording/tape.js'
import { counted, grouped } from '../tools/warm/progress.js'
import { toldToStop } from '../app/faults.js'
import { FewLines } from '../tools/recording/few-lines.js'
import { type ExitCode, exitCodes, type Io, UsageError } from '../app/io.js'
import { listenFault } from '../app/listen-fault.js'

/** The flags of `replay`, as they were typed. */
export interface ReplayFlags {
  readonly listen?: string
  readonly timing?: boolean
}

const defaultListen = '127.0.0.1:8081'

/** Answers as a node did, from a file of `record`, until it is told to stop. */
export async function replay (flags: ReplayFlags, files: readonly string[], io: Io): Promise<ExitCode> {
  const [file, ...others] = files
  const { listen: address = defaultListen, timing = false } = flags
  if (file === undefined || others.length > 0) {
    throw new UsageError('replay takes one file that varve record has written')
  }
  if (!isAddress(address)) throw new UsageError(`--listen expects HOST:PORT, got ${address}`)
  const stopped = toldToStop(io, () => performance.now())
  const recording = await recordingIn(file, io)
  if (recording === undefined) return exitCodes.misused
  const tape = new Tape(recording.pairs)
  const few = new FewLines(text => {
    io.err(text)
  })
  const node = new ReplayedNode({
    tape,
    isTimed: timing,
    onMissing: (what, why) => {
      few.add(`not answered: ${what}: ${why}`)
    }
  })
  const open = await listen(hostAndPort(address), (request, response) => {
    node.answer(request, response).catch(() => {
      request.socket.destroy()
    })
  })
    .catch((error: unknown) => {
      throw listenFault(address, { key: '--listen', flag: '--listen' }, error as Error)
    })
  io.out(
    `varve replay: ${open.url} answers as ${file} has it\n  ${beginningOf(recording, tape)}\n${
      recording.isTorn ? '  its last line is torn, and left out\n' : ''
    }  curl -i ${open.url}/v1\n  varve serve --upstream ${open.url}\n`
  )
  await stopped
  await open.close(0)
  io.out(summaryOf(node, tape))
  return exitCodes.ok
}

async function recordingIn (file: string, io: Io): Promise<Recording | undefined> {
  try {
    return await readRecording(createReadStream(file))
  } catch (error) {
    if (!(error instanceof NoRecording)) {
      throw new Error(`${file} cannot be read: ${(error as Error).message}`, { cause: error })
    }
    io.err(
      `varve: ${file} is no recording that varve replay understands:\n${
        error.mistakes.map(({ line, expected }) => `  line ${line}: ${expected}\n`).join('')
      }`
    )
    return undefined
  }
}

function beginningOf ({ pairs, made, by }: Recording, { questions }: Tape): string {
  return `${counted(pairs.length, 'answer')} to ${counted(questions, 'question')}, recorded by ${by} from ${made} on`
}

function summaryOf ({ answered, missing }: ReplayedNode, { notGiven }: Tape): string {
  return `${counted(answered + missing, 'question')}: ${grouped(answered)} answered, ${
    grouped(missing)
  } not in the recording; ${grouped(notGiven)} of its answers ${notGiven === 1 ? 'was' : 'were'} never asked for\n`
}
