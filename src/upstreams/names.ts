import { type LookupAddress, type LookupOptions, lookup as lookupAtSystem } from 'node:dns'
import { type LookupFunction } from 'node:net'
import { within } from '../within.js'

/** What finds out where a name leads; fails with the code of the system. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

/** How names are found. */
export interface NamesOptions {
  /** Left out for that of the system. */
  readonly resolve?: Resolve | undefined
  readonly now: () => number
  /** How long whoever connects may take altogether. */
  readonly timeoutMs: number
  /** Told of each answer. */
  readonly onAnswer?: (hostname: string, addresses: readonly LookupAddress[]) => void
}

/** A name does not lead anywhere, or nobody could say where. */
export class Unresolved extends Error {
  readonly code: string

  constructor (hostname: string, code: string) {
    super(`the name ${hostname} could not be resolved: ${code}`)
    this.code = code
  }
}

interface Asked {
  readonly atMs: number
  readonly answer: Promise<readonly LookupAddress[]>
}

interface Known {
  asked: Asked | undefined
  last: { readonly atMs: number, readonly addresses: readonly LookupAddress[] } | undefined
  turns: number
}

// Those who connect in one go ask once.
const freshMs = 1000
// Whoever resolves and says nothing for so long, or this part of the time, is not waited for where an answer of before
// is known (RFC 8767, section 5).
const slowMs = 1000
const slowShare = 1 / 5
// So that it is told as what it is, and not as a node that says nothing; the first word of a node is waited for 7 s at
// most.
const longestMs = 6500
const wholeShare = 0.9
// For so long an answer of before will do while there is none (RFC 8767, section 5).
const staleMs = 86_400_000
// Servers of a cluster come and go.
const mostNames = 256

/**
 * Where names lead. The system resolves two names at a time and no more, for as long as they take; so each is asked for
 * once at a time, or one that hangs would keep all others from being found.
 */
export class Names {
  readonly #options: NamesOptions
  readonly #resolve: Resolve
  readonly #known = new Map<string, Known>()

  constructor (options: NamesOptions) {
    this.#options = options
    this.#resolve = options.resolve ?? resolveAtSystem
  }

  /** In the form in which a socket asks. */
  readonly lookup: LookupFunction = (hostname: string, { all }: LookupOptions, callback) => {
    this.addressesOf(hostname).then(
      found => {
        const [first] = found
        if (all === true) callback(null, [...found])
        else callback(null, first?.address ?? '', first?.family)
      },
      (error: Error) => {
        callback(error, [])
      }
    )
  }

  /**
   * Where a name leads now, as far as that can be told in time; else where it led last. One of several takes its turn
   * to be the first.
   */
  async addressesOf (hostname: string): Promise<readonly LookupAddress[]> {
    const known = this.#knownOf(hostname)
    return turned(await this.#find(hostname, known), known.turns++)
  }

  /** Asks anew where it leads. */
  async look (hostname: string): Promise<void> {
    await this.#ask(hostname, this.#knownOf(hostname)).answer
  }

  async #find (hostname: string, known: Known): Promise<readonly LookupAddress[]> {
    const { now, timeoutMs } = this.#options
    if (known.last !== undefined && now() - known.last.atMs < freshMs) return known.last.addresses
    const { atMs, answer } = this.#ask(hostname, known)
    const { last } = known
    if (last === undefined || now() - last.atMs >= staleMs) {
      const found = await within(Math.min(longestMs, timeoutMs * wholeShare), answer)
      if (found === undefined) throw new Unresolved(hostname, 'ETIMEOUT')
      return found
    }
    try {
      return await within(Math.max(0, atMs + Math.min(slowMs, timeoutMs * slowShare) - now()), answer) ?? last.addresses
    } catch (error) {
      // That there is no such name is an answer.
      if (known.last === undefined) throw error
      return last.addresses
    }
  }

  #ask (hostname: string, known: Known): Asked {
    if (known.asked !== undefined) return known.asked
    const asked = {
      atMs: this.#options.now(),
      answer: this.#askOnce(hostname, known).finally(() => {
        known.asked = undefined
      })
    }
    asked.answer.catch(() => {})
    known.asked = asked
    return asked
  }

  async #askOnce (hostname: string, known: Known): Promise<readonly LookupAddress[]> {
    try {
      const addresses = await this.#resolve(hostname)
      if (addresses.length === 0) throw new Unresolved(hostname, 'ENOTFOUND')
      known.last = { atMs: this.#options.now(), addresses }
      this.#options.onAnswer?.(hostname, addresses)
      return addresses
    } catch (error) {
      const { code = 'EAI_FAIL' } = error as NodeJS.ErrnoException
      if (code === 'ENOTFOUND') known.last = undefined
      throw new Unresolved(hostname, code)
    }
  }

  #knownOf (hostname: string): Known {
    const known = this.#known.get(hostname) ?? { asked: undefined, last: undefined, turns: 0 }
    this.#known.set(hostname, known)
    for (const oldest of this.#known.keys()) if (this.#known.size > mostNames) this.#known.delete(oldest)
    return known
  }
}

async function resolveAtSystem (hostname: string): Promise<readonly LookupAddress[]> {
  return await new Promise((resolve, reject) => {
    lookupAtSystem(hostname, { all: true }, (error, addresses) => {
      if (error === null) resolve(addresses)
      else reject(error)
    })
  })
}

// A burst of connections to a name with several addresses is not all for the first; which family is better is the
// system's to say.
function turned (addresses: readonly LookupAddress[], turns: number): readonly LookupAddress[] {
  const alike = addresses.filter(({ family }) => family === addresses[0]?.family)
  const at = turns % Math.max(1, alike.length)
  return [...alike.slice(at), ...alike.slice(0, at), ...addresses.filter(address => !alike.includes(address))]
}
