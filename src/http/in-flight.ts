import { type Taking } from './taking.js'

/** A client that is behind, and the memory that its response holds. */
export interface Reader {
  readonly taking: Pick<Taking, 'behindTicks' | 'bytesPerSecond'>
  /** The memory of its body, which several responses may share; undefined where only what is queued counts. */
  readonly memory: ArrayBufferLike | undefined
  readonly queuedBytes: number
}

// Seconds that every client has before its speed is judged: a network that is away for a moment is back by then.
const unjudgedTicks = 6

/** The clients to cut so that responses in flight fit into a limit: the slowest first (law 10). */
export function tooSlowFor<R extends Reader> (limitBytes: number, readers: readonly R[]): R[] {
  const sharing = new Map<ArrayBufferLike, number>()
  let bytes = 0
  // Adds a client to those that share its memory, or takes it away; the bytes that this adds or frees.
  const share = ({ memory, queuedBytes }: R, change: 1 | -1): number => {
    if (memory === undefined) return queuedBytes
    const before = sharing.get(memory) ?? 0
    sharing.set(memory, before + change)
    return Math.min(before, before + change) === 0 ? memory.byteLength : 0
  }
  for (const reader of readers) bytes += share(reader, 1)
  if (bytes <= limitBytes) return []
  const cut: R[] = []
  for (const reader of readers.filter(({ taking }) => taking.behindTicks > unjudgedTicks).sort(slowestFirst)) {
    if (bytes <= limitBytes) break
    bytes -= share(reader, -1)
    cut.push(reader)
  }
  return cut
}

// Orders equally slow clients by how long they have been behind: a new one may not have shown its speed yet.
function slowestFirst ({ taking: a }: Reader, { taking: b }: Reader): number {
  return a.bytesPerSecond - b.bytesPerSecond || b.behindTicks - a.behindTicks
}
