import { type Socket } from 'node:net'

/** A client with unread response bytes, and the memory of that response. */
export interface ResponseReader {
  readonly throughput: Pick<ClientThroughputMeter, 'backlogTicks' | 'bytesPerSecond'>
  /** Buffer of the body, which responses may share; undefined counts the queued bytes only. */
  readonly memory: ArrayBufferLike | undefined
  readonly queuedBytes: number
}

// Spares clients for these seconds, in which a short network outage recovers.
const graceTicks = 6

/**
 * Returns the clients to cut, slowest first, so that responses in flight fit the limit (law 10: nothing grows without
 * bound).
 */
export function readersToCut<R extends ResponseReader> (limitBytes: number, readers: readonly R[]): R[] {
  const sharers = new Map<ArrayBufferLike, number>()
  let bytes = 0
  // Adds a client to its buffer's sharers or removes it; returns the bytes this adds or frees.
  const changeSharers = ({ memory, queuedBytes }: R, change: 1 | -1): number => {
    if (memory === undefined) return queuedBytes
    const before = sharers.get(memory) ?? 0
    sharers.set(memory, before + change)
    return Math.min(before, before + change) === 0 ? memory.byteLength : 0
  }
  for (const reader of readers) bytes += changeSharers(reader, 1)
  if (bytes <= limitBytes) return []
  const cut: R[] = []
  for (const reader of readers.filter(({ throughput }) => throughput.backlogTicks > graceTicks).sort(slowestFirst)) {
    if (bytes <= limitBytes) break
    bytes -= changeSharers(reader, -1)
    cut.push(reader)
  }
  return cut
}

// Breaks ties by backlog time: a new client may not have reached its speed yet.
function slowestFirst ({ throughput: a }: ResponseReader, { throughput: b }: ResponseReader): number {
  return a.bytesPerSecond - b.bytesPerSecond || b.backlogTicks - a.backlogTicks
}

// Exceeds the pauses that the kernel's buffering causes, up to 79 s at 16 KB/s.
const maxStalledTicks = 120

/** Measures how fast a client takes its response, from the moment the kernel's buffer is full. */
export class ClientThroughputMeter {
  #firstTakenBytes = 0
  #takenBytes = 0
  #backlogTicks = 0
  #stalledTicks = 0

  /** Takes a sample; the caller samples once a second. */
  sample ({ bytesWritten, writableLength }: Pick<Socket, 'bytesWritten' | 'writableLength'>): void {
    const takenBytes = bytesWritten - writableLength
    if (writableLength === 0) this.#backlogTicks = 0
    else if (++this.#backlogTicks === 1) this.#firstTakenBytes = takenBytes
    this.#stalledTicks = this.#backlogTicks > 1 && takenBytes === this.#takenBytes ? this.#stalledTicks + 1 : 0
    this.#takenBytes = takenBytes
  }

  /** Seconds for which the response has had bytes that the kernel did not take. */
  get backlogTicks (): number {
    return this.#backlogTicks
  }

  /** True after 120 s in which the client took nothing. */
  get isStalled (): boolean {
    return this.#stalledTicks >= maxStalledTicks
  }

  /** Average speed, without the bytes that first filled the kernel's buffer. */
  get bytesPerSecond (): number {
    return (this.#takenBytes - this.#firstTakenBytes) / this.#backlogTicks
  }
}
