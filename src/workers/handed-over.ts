import { type ChildProcess } from 'node:child_process'

/** One's own end of a connection that is on its way to another process. */
interface Handle {
  close(): void
}

/**
 * What node:cluster sends when it hands over a connection, and what comes back when that was taken, or did not arrive;
 * no promise of Node's (ARCHITECTURE.md).
 */
interface Notice {
  readonly cmd?: unknown
  readonly act?: unknown
  readonly seq?: number
  readonly ack?: number
}

/** Connections that did not arrive once; a second time they are ended. */
export type SentBack = WeakSet<object>

/**
 * Ends what a process was handed and had not taken when it ended, or could not take since it has no file descriptor
 * left. node:cluster lets go of its own end of a connection only when the worker says that it has it, and hands a
 * worker nothing more before that: the client of one that dies before that would hang for ever, and a worker that was
 * out of descriptors for a moment would never answer a new client again.
 */
export function endWhatIsNotTaken (child: ChildProcess, sentBack: SentBack): void {
  // What could not be begun, for want of descriptors, is handed nothing.
  if ((child as Partial<ChildProcess>).send === undefined) return
  const handed = new Map<number, Handle>()
  const send = child.send.bind(child) as (...all: unknown[]) => boolean
  child.send = ((message: Notice, handle?: Handle, ...rest: unknown[]) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined) handed.set(message.seq, handle)
    return send(message, handle, ...rest)
  }) as ChildProcess['send']
  child.on('internalMessage', ({ cmd, ack }: Notice) => {
    if (ack !== undefined) handed.delete(ack)
    if (cmd === 'NODE_HANDLE_NACK') { for (const [seq, handle] of handed) answerFor(seq, handle) }
  })
  child.once('exit', () => {
    for (const handle of handed.values()) handle.close()
  })

  // In the worker's place: once another may have room for it, then it is as good as taken, and closed.
  function answerFor (seq: number, handle: Handle): void {
    const accepted = sentBack.has(handle)
    sentBack.add(handle)
    child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: seq, accepted })
  }
}
