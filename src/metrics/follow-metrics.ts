import { type Registry } from 'prom-client'
import { type EndpointName } from '../api/endpoints.js'
import { type FollowComparison } from '../follow/follow-comparer.js'
import { type TailResult } from '../follow/tail-reader.js'
import { type TouchAllReason } from '../follow/transaction-digest.js'
import { type VerifyResult } from '../follow/verify-write-sets.js'
import { makeCounter, makeGauge } from './metric-factories.js'

/** Objects that the gauges of following read at a scrape. */
export interface FollowGaugeSources {
  readonly headVersion: () => bigint | undefined
  readonly lagSeconds: () => number | undefined
}

/** Counters of following; created with the first configuration that follows. */
export class FollowMetrics {
  readonly #reads
  readonly #versions
  readonly #bytes
  readonly #touchedAll
  readonly #observed
  readonly #verified
  #different = 0

  constructor (registry: Registry, { headVersion, lagSeconds }: FollowGaugeSources) {
    makeGauge(registry, 'varve_follow_head_version', () => [[{}, Number(headVersion() ?? NaN)]])
    makeGauge(registry, 'varve_follow_lag_seconds', () => [[{}, lagSeconds() ?? NaN]])
    this.#reads = makeCounter(registry, 'varve_follow_reads_total')
    this.#versions = makeCounter(registry, 'varve_follow_versions_total')
    this.#bytes = makeCounter(registry, 'varve_follow_bytes_total')
    this.#touchedAll = makeCounter(registry, 'varve_follow_touched_all_total')
    this.#observed = makeCounter(registry, 'varve_follow_observed_total')
    this.#verified = makeCounter(registry, 'varve_follow_verified_total')
  }

  /** Counts a reading of the tail, with the versions that it brought. */
  read (result: TailResult, versions: number): void {
    this.#reads.inc({ result })
    this.#versions.inc(versions)
  }

  readBytes (bytes: number): void {
    this.#bytes.inc(bytes)
  }

  touchedAll (reason: TouchAllReason): void {
    this.#touchedAll.inc({ reason })
  }

  /** Differences that either check found. */
  get different (): number {
    return this.#different
  }

  observed (endpoint: EndpointName, result: FollowComparison): void {
    if (result === 'different') this.#different++
    this.#observed.inc({ endpoint, result })
  }

  verified (result: VerifyResult): void {
    if (result === 'different') this.#different++
    this.#verified.inc({ result })
  }
}
