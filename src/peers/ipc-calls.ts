import { ErrorResponse, unavailableError } from '../api/error-response.js'
import { withTimeout } from '../with-timeout.js'
import { Deferred } from './deferred.js'

type Failure = Pick<ErrorResponse, 'status' | 'code' | 'message' | 'rawHeaders'>

/** Call of a method in another process, and its result. */
export type CallMessage =
  | { readonly kind: 'call', readonly id: number, readonly method: string, readonly args: readonly unknown[] }
  | { readonly kind: 'result', readonly id: number, readonly value?: unknown, readonly failure?: Failure }

/** Returns true for a call or its result. */
export function isCall (message: { readonly kind: string }): message is CallMessage {
  return message.kind === 'call' || message.kind === 'result'
}

/** Error of a call whose process did not respond in time. */
export const noResponse = unavailableError('another process of varve did not respond in time')

type Result = Extract<CallMessage, { kind: 'result' }>
type Arguments<T> = T extends (...args: infer A) => unknown ? A : never
type Resolved<T> = T extends (...args: never[]) => infer R ? Awaited<R> : never

/** Returns methods that call those of the other process, each within its time limit. */
export function methodsOf<Methods extends object, Name extends keyof Methods & string> (
  calls: Pick<IpcCalls<Methods>, 'call'>,
  limitsMs: Readonly<Record<Name, number>>
): { readonly [Each in Name]: (...args: Arguments<Methods[Each]>) => Promise<Resolved<Methods[Each]>> } {
  return Object.fromEntries(
    Object.entries<number>(limitsMs).map(([name, limitMs]) => [
      name,
      async (...args: Arguments<Methods[Name]>) => await calls.call(limitMs, name as Name, ...args)
    ])
  ) as ReturnType<typeof methodsOf<Methods, Name>>
}

/** Calls over IPC between two processes, each of which calls methods of the other. */
export class IpcCalls<Remote extends object> {
  readonly #send: (message: CallMessage) => void
  readonly #own: object
  readonly #mask: (text: string) => string
  readonly #pending = new Map<number, Deferred<Result>>()
  #lastId = 0
  #isClosed = false

  /** `mask` removes secrets from the text of an error. */
  constructor (send: (message: CallMessage) => void, own: object, mask = (text: string): string => text) {
    this.#send = send
    this.#own = own
    this.#mask = mask
  }

  /** Calls a method; rejects with an error response if it fails, or does not return in time. */
  async call<Name extends keyof Remote & string> (
    timeoutMs: number,
    method: Name,
    ...args: Arguments<Remote[Name]>
  ): Promise<Resolved<Remote[Name]>> {
    const id = ++this.#lastId
    const pending = new Deferred<Result>()
    this.#pending.set(id, pending)
    this.#send({ kind: 'call', id, method, args })
    if (this.#isClosed) this.close()
    const result = await withTimeout(timeoutMs, pending.promise)
    this.#pending.delete(id)
    if (result === undefined) throw noResponse
    const { failure, value } = result
    if (failure === undefined) return value as Resolved<Remote[Name]>
    throw new ErrorResponse(failure.status, failure.code, failure.message, failure.rawHeaders)
  }

  receive (message: CallMessage): void {
    if (message.kind === 'call') this.#run(message).catch(() => {})
    else this.#pending.get(message.id)?.resolve(message)
  }

  /** Fails all calls that wait, and all later calls, because the other process is gone. */
  close (): void {
    this.#isClosed = true
    for (const [id, pending] of this.#pending) {
      pending.resolve({ kind: 'result', id, failure: failureOf(new Error('the other process of varve exited')) })
    }
  }

  async #run ({ id, method, args }: Extract<CallMessage, { kind: 'call' }>): Promise<void> {
    try {
      const own = this.#own as Readonly<Record<string, (...args: readonly unknown[]) => unknown>>
      this.#send({ kind: 'result', id, value: await own[method]?.(...args) })
    } catch (error) {
      this.#send({ kind: 'result', id, failure: failureOf(error as Error, this.#mask) })
    }
  }
}

function failureOf (error: Error, mask = (text: string): string => text): Failure {
  const response = error instanceof ErrorResponse ? error : unavailableError(mask(error.message))
  const { status, code, message, rawHeaders } = response
  return { status, code, message, rawHeaders }
}
