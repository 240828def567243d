import { type ClientThroughputMeter } from './client-throughput-meter.js'

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
