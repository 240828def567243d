import { createHash, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { type Logger } from 'pino'
import { cipherListOf } from '../config/ciphers.js'
import { type Config } from '../config/schema.js'

/** Options of a TLS listener: certificate, key, lowest TLS version and ciphers. */
export interface TlsIdentity {
  readonly cert: Buffer
  readonly key: Buffer
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3'
  readonly ciphers: string
}

type TlsPolicy = Omit<TlsIdentity, 'cert' | 'key'>

/** Files of a certificate, and the means to watch them. */
export interface CertificateOptions {
  readonly certFile: string
  readonly keyFile: string
  readonly policy: TlsPolicy
  readonly wallClockMs: () => number
  readonly log: Pick<Logger, 'info' | 'error'>
  /** Milliseconds between checks of the files; 10 s if absent. */
  readonly checkEveryMs?: number
}

/** A usable certificate with its validity. */
interface LoadedCertificate {
  readonly identity: TlsIdentity
  readonly digest: string
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

// Interval of checks: a renewed certificate is used within half a minute, because two equal reads are needed.
const defaultCheckEveryMs = 10_000
const dayMs = 86_400_000
/** Days left at which an alert pages. A warning comes no later, however short a certificate lives. */
export const pagingDaysLeft = 2
// Limits the time before expiry in which varve warns: ACME clients renew with a third of the lifetime left, so only a
// missed renewal warns.
const maxWarningMs = 7 * dayMs
const warningShare = 1 / 6

/** Loads the certificate of the public listener; undefined without TLS. Throws if it is unusable. */
export function certificateOf (
  { tls: { certFile, keyFile, minVersion, ciphers } }: Config,
  now: () => number,
  log: Pick<Logger, 'info' | 'error'>
): Certificate | undefined {
  if (certFile === null || keyFile === null) return undefined
  const policy = { minVersion: minVersion === 1.3 ? 'TLSv1.3' : 'TLSv1.2', ciphers: cipherListOf(ciphers) } as const
  return new Certificate({ certFile, keyFile, policy, wallClockMs: () => performance.timeOrigin + now(), log })
}

/** Certificate of the public listener: loads a renewed one from its files, and keeps the current one if that fails. */
export class Certificate {
  readonly #options: CertificateOptions
  #current: LoadedCertificate
  #lastFingerprint: string
  #rejection: string | undefined
  #onRenewed: ((identity: TlsIdentity) => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #checking: Promise<void> | undefined

  /** Loads the certificate; throws if it is unusable. */
  constructor (options: CertificateOptions) {
    const { certFile, keyFile, policy } = options
    this.#options = options
    this.#current = loadCertificate(readFileSync(certFile), readFileSync(keyFile), policy)
    this.#lastFingerprint = this.#current.digest
  }

  get identity (): TlsIdentity {
    return this.#current.identity
  }

  /** Unix time in seconds at which the current certificate expires. */
  get notAfterSeconds (): number {
    return this.#current.notAfterMs / 1000
  }

  /** Reasons for `degraded`: an expiry that is near or past, and a rejected renewal. */
  get warnings (): string[] {
    const { notBeforeMs, notAfterMs } = this.#current
    const leftMs = notAfterMs - this.#options.wallClockMs()
    const missedRenewalMs = Math.min(maxWarningMs, (notAfterMs - notBeforeMs) * warningShare)
    const soonMs = Math.max(missedRenewalMs, pagingDaysLeft * dayMs)
    return [
      ...(leftMs <= 0
        ? [`the certificate in use expired on ${isoTimeOf(notAfterMs)}`]
        : leftMs <= soonMs
        ? [`the certificate in use expires on ${isoTimeOf(notAfterMs)}`]
        : []),
      ...(this.#rejection === undefined ? [] : [`a renewed certificate was rejected: ${this.#rejection}`])
    ]
  }

  /** Checks the files from now on, and passes each renewed certificate to `onRenewed`. */
  watch (onRenewed: (identity: TlsIdentity) => void): void {
    this.#onRenewed = onRenewed
    // Polls, because file watches miss a switched symlink (Kubernetes secrets) and changes on network file systems.
    this.#timer = setInterval(() => this.check().catch(() => {}), this.#options.checkEveryMs ?? defaultCheckEveryMs)
      .unref()
  }

  /** Checks the files once; concurrent calls share a check, which may hang on a network file system. */
  async check (): Promise<void> {
    this.#checking ??= this.#checkFiles().finally(() => {
      this.#checking = undefined
    })
    await this.#checking
  }

  /** Loads the files for a reload; throws if they are unusable, else returns the function that takes them into use. */
  async prepareRenewal (): Promise<() => void> {
    const [cert, key] = await this.#read()
    if (digestOf(cert, key) === this.#current.digest) {
      return () => {
        this.#rejection = undefined
      }
    }
    const loaded = this.#validate(cert, key)
    return () => this.#use(loaded)
  }

  /** Stops the checks. */
  close (): void {
    clearInterval(this.#timer)
  }

  // Waits for two equal reads: certificate and key are written one after the other, and a file may be absent meanwhile.
  async #checkFiles (): Promise<void> {
    const files = await this.#read().catch((error: Error) => error)
    const fingerprint = files instanceof Error ? files.message : digestOf(...files)
    const isUnchanged = fingerprint === this.#lastFingerprint
    this.#lastFingerprint = fingerprint
    if (fingerprint === this.#current.digest) this.#rejection = undefined
    else if (isUnchanged) this.#tryRenew(files)
  }

  #tryRenew (files: [cert: Buffer, key: Buffer] | Error): void {
    try {
      if (files instanceof Error) throw files
      this.#use(this.#validate(...files))
    } catch (error) {
      const { message: reason } = error as Error
      if (reason !== this.#rejection) {
        this.#options.log.error(
          { reason },
          'renewed certificate rejected: the current one stays in use, the files are checked again'
        )
      }
      this.#rejection = reason
    }
  }

  async #read (): Promise<[cert: Buffer, key: Buffer]> {
    const { certFile, keyFile } = this.#options
    return await Promise.all([readFile(certFile), readFile(keyFile)])
  }

  #validate (cert: Buffer, key: Buffer): LoadedCertificate {
    const loaded = loadCertificate(cert, key, this.#options.policy)
    const now = this.#options.wallClockMs()
    if (loaded.notAfterMs <= now) throw new Error(`it expired on ${isoTimeOf(loaded.notAfterMs)}`)
    if (loaded.notBeforeMs > now) throw new Error(`it is not valid before ${isoTimeOf(loaded.notBeforeMs)}`)
    return loaded
  }

  #use (loaded: LoadedCertificate): void {
    this.#onRenewed?.(loaded.identity)
    this.#current = loaded
    this.#rejection = undefined
    this.#options.log.info({ notAfter: isoTimeOf(loaded.notAfterMs) }, 'renewed certificate in use')
  }
}

function loadCertificate (cert: Buffer, key: Buffer, policy: TlsPolicy): LoadedCertificate {
  // Checks for a locked key first, because OpenSSL's error for one does not name the passphrase.
  if (/ENCRYPTED/.test(key.toString('latin1'))) {
    throw new Error(
      'tls.keyFile is encrypted with a passphrase, which varve cannot ask for: expected an unencrypted key'
    )
  }
  const identity: TlsIdentity = { cert, key, ...policy }
  try {
    createSecureContext(identity)
    const { validFrom, validTo } = new X509Certificate(cert)
    return {
      identity,
      digest: digestOf(cert, key),
      notBeforeMs: Date.parse(validFrom),
      notAfterMs: Date.parse(validTo)
    }
  } catch (error) {
    throw new Error(`tls.certFile and tls.keyFile are not a certificate with its key: ${(error as Error).message}`)
  }
}

function digestOf (cert: Buffer, key: Buffer): string {
  return createHash('sha256').update(createHash('sha256').update(cert).digest()).update(key).digest('hex')
}

function isoTimeOf (ms: number): string {
  return new Date(ms).toISOString()
}
