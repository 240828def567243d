import { type ChildProcess } from 'node:child_process'

/** The primary's own handle of a connection that it sends to a worker. */
interface Handle {
  close(): void
}

/**
 * Internal message of node:cluster that hands over or acknowledges a connection; undocumented by Node.js
 * (README.md).
 */
interface ClusterMessage {
  readonly cmd?: unknown
  readonly act?: unknown
  readonly seq?: number
  readonly ack?: number
}

/** Connections that one worker could not accept; after a second failure they are closed. */
export type RejectedConnections = WeakSet<object>

/**
 * Closes connections that a worker never accepts. Without it node:cluster waits for ever, so their clients hang and the
 * worker gets no more.
 */
export function closeUnacceptedConnections (child: ChildProcess, rejectedConnections: RejectedConnections): void {
  // A process that could not start, for want of file descriptors, has no channel.
  if ((child as Partial<ChildProcess>).send === undefined) return
  const unaccepted = new Map<number, Handle>()
  const send = child.send.bind(child) as (...args: unknown[]) => boolean
  child.send = ((message: ClusterMessage, handle?: Handle, ...rest: unknown[]) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined) {
      unaccepted.set(message.seq, handle)
    }
    return send(message, handle, ...rest)
  }) as ChildProcess['send']
  child.on('internalMessage', ({ cmd, ack }: ClusterMessage) => {
    if (ack !== undefined) unaccepted.delete(ack)
    if (cmd === 'NODE_HANDLE_NACK') { for (const [seq, handle] of unaccepted) acknowledge(seq, handle) }
  })
  child.once('exit', () => {
    for (const handle of unaccepted.values()) handle.close()
  })

  // Acknowledges in the worker's place: first as rejected, so another worker gets the connection; then as accepted, so
  // it is closed.
  function acknowledge (seq: number, handle: Handle): void {
    const isAccepted = rejectedConnections.has(handle)
    rejectedConnections.add(handle)
    child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: seq, accepted: isAccepted })
  }
}
