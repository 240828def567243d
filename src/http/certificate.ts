import { createHash, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { type Logger } from 'pino'

/** What a TLS listener shows and accepts: a certificate, its key, the lowest version of TLS and the ciphers. */
export interface Identity extends Terms {
  readonly cert: Buffer
  readonly key: Buffer
}

/** The lowest version of TLS and the ciphers that a listener accepts. */
export interface Terms {
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3'
  readonly ciphers: string
}

/** Where a certificate lies, and how it is looked after. */
export interface CertificateOptions {
  readonly certFile: string
  readonly keyFile: string
  readonly terms: Terms
  /** What time it is. */
  readonly wallClockMs: () => number
  readonly log: Pick<Logger, 'info' | 'error'>
  /** How often the files are looked at; left out for the usual. */
  readonly everyMs?: number
}

/** A certificate that can be used, and when it is valid. */
interface Usable {
  readonly identity: Identity
  readonly digest: string
  readonly fromMs: number
  readonly untilMs: number
}

// What is found is taken when it is the same at the next look: within half a minute.
const usualMs = 10_000
const dayMs = 86_400_000
// Whoever renews does so with a third of the time left; certificates of a few days have less of it than this.
const warnMs = 7 * dayMs
const warnShare = 1 / 6

/**
 * The certificate of the public listener: a renewed one is taken from its files by itself, and one that cannot be used
 * leaves the one before in its place.
 */
export class Certificate {
  readonly #options: CertificateOptions
  #used: Usable
  #seen: string
  #refusal: string | undefined
  #onRenewed: ((identity: Identity) => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined

  /** Reads it; throws where it cannot be used. */
  constructor (options: CertificateOptions) {
    const { certFile, keyFile, terms } = options
    this.#options = options
    this.#used = usableFrom(readFileSync(certFile), readFileSync(keyFile), terms)
    this.#seen = this.#used.digest
  }

  /** What is shown now. */
  get identity (): Identity {
    return this.#used.identity
  }

  /** When the one in use ends, in seconds of Unix time. */
  get notAfterSeconds (): number {
    return this.#used.untilMs / 1000
  }

  /** What is not as it should be. */
  get complaints (): string[] {
    const { fromMs, untilMs } = this.#used
    const leftMs = untilMs - this.#options.wallClockMs()
    const soonMs = Math.min(warnMs, (untilMs - fromMs) * warnShare)
    return [
      ...(leftMs <= 0
        ? [`the certificate in use has expired on ${timeOf(untilMs)}`]
        : leftMs <= soonMs
        ? [`the certificate in use expires on ${timeOf(untilMs)}`]
        : []),
      ...(this.#refusal === undefined ? [] : [`a renewed certificate is refused: ${this.#refusal}`])
    ]
  }

  /** Looks at its files from now on; told of each certificate that takes the place of another. */
  watch (onRenewed: (identity: Identity) => void): void {
    this.#onRenewed = onRenewed
    // A file system that tells of changes does not do so for a link that is turned, nor over a network.
    this.#timer = setInterval(() => {
      this.look().catch(() => {})
    }, this.#options.everyMs ?? usualMs).unref()
  }

  /** Looks once; one look that hangs, as network file systems do, is not joined by more. */
  async look (): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    await this.#looking
  }

  /** Reads it at an operator's word: throws where it cannot be used; else what is given takes it into use. */
  async renewed (): Promise<() => void> {
    const [cert, key] = await this.#read()
    if (digestOf(cert, key) === this.#used.digest) {
      return () => {
        this.#refusal = undefined
      }
    }
    const usable = this.#judge(cert, key)
    return () => {
      this.#take(usable)
    }
  }

  /** Looks no more. */
  close (): void {
    clearInterval(this.#timer)
  }

  // Two files are not written at once, nor a chain in one go, and a file may be gone for a moment: what is still
  // changing is not judged.
  async #look (): Promise<void> {
    const found = await this.#read().then(
      ([cert, key]) => ({ cert, key, mark: digestOf(cert, key) }),
      (error: Error) => ({ error, mark: error.message })
    )
    const isSettled = found.mark === this.#seen
    this.#seen = found.mark
    if (found.mark === this.#used.digest) this.#refusal = undefined
    else if (isSettled) this.#settle(found)
  }

  #settle (found: { readonly cert: Buffer, readonly key: Buffer } | { readonly error: Error }): void {
    try {
      if ('error' in found) throw found.error
      this.#take(this.#judge(found.cert, found.key))
    } catch (error) {
      const { message } = error as Error
      if (message !== this.#refusal) {
        this.#options.log.error(
          { reason: message },
          'a renewed certificate is refused, and the one before stays in use: it is looked at again'
        )
      }
      this.#refusal = message
    }
  }

  async #read (): Promise<[cert: Buffer, key: Buffer]> {
    const { certFile, keyFile } = this.#options
    return await Promise.all([readFile(certFile), readFile(keyFile)])
  }

  #judge (cert: Buffer, key: Buffer): Usable {
    const usable = usableFrom(cert, key, this.#options.terms)
    const now = this.#options.wallClockMs()
    if (usable.untilMs <= now) throw new Error(`it has expired on ${timeOf(usable.untilMs)}`)
    if (usable.fromMs > now) throw new Error(`it is valid from ${timeOf(usable.fromMs)} only`)
    return usable
  }

  #take (usable: Usable): void {
    this.#onRenewed?.(usable.identity)
    this.#used = usable
    this.#refusal = undefined
    this.#options.log.info({ notAfter: timeOf(usable.untilMs) }, 'a renewed certificate is in use')
  }
}

function usableFrom (cert: Buffer, key: Buffer, terms: Terms): Usable {
  // What OpenSSL says of it would be of no help.
  if (/ENCRYPTED/.test(key.toString('latin1'))) {
    throw new Error(
      'tls.keyFile is locked with a passphrase, and varve has no way to be told one: expected a key without'
    )
  }
  const identity: Identity = { cert, key, ...terms }
  try {
    createSecureContext(identity)
    const { validFrom, validTo } = new X509Certificate(cert)
    return { identity, digest: digestOf(cert, key), fromMs: Date.parse(validFrom), untilMs: Date.parse(validTo) }
  } catch (error) {
    throw new Error(`tls.certFile and tls.keyFile are no certificate with its key: ${(error as Error).message}`)
  }
}

function digestOf (cert: Buffer, key: Buffer): string {
  return createHash('sha256').update(createHash('sha256').update(cert).digest()).update(key).digest('hex')
}

function timeOf (ms: number): string {
  return new Date(ms).toISOString()
}
