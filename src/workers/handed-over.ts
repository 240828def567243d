import { type ChildProcess } from 'node:child_process'

/** One's own end of a connection that is on its way to another process. */
interface Handle {
  close (): void
}

/** What node:cluster sends when it hands over a connection, and what comes back when that was taken; no promise of Node's (ARCHITECTURE.md). */
interface Notice {
  readonly act?: unknown
  readonly seq?: number
  readonly ack?: number
}

/**
 * Ends what a process was handed and had not taken when it ended. node:cluster lets go of its own end of a connection only when the worker says that it
 * has it, so that the client of one that dies before that would hang for ever.
 */
export function endWhatIsNotTaken (child: ChildProcess): void {
  const handed = new Map<number, Handle>()
  const send = child.send.bind(child) as (...all: unknown[]) => boolean
  child.send = ((message: Notice, handle?: Handle, ...rest: unknown[]) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined) handed.set(message.seq, handle)
    return send(message, handle, ...rest)
  }) as ChildProcess['send']
  child.on('internalMessage', ({ ack }: Notice) => { if (ack !== undefined) handed.delete(ack) })
  child.once('exit', () => { for (const handle of handed.values()) handle.close() })
}
