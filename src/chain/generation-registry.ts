import { type GenerationRecord, type UpstreamChain } from './generation-record.js'

/** Registered generations of one chain, by number. */
export interface RegisteredGenerations {
  readonly generations: ReadonlyMap<number, GenerationRecord>
}

/**
 * Registry by which replicas agree on generations (law 7: chains never mix); its methods reject while it is
 * unreachable.
 */
export interface GenerationRegistry {
  /** Reads the registered generations of a chain. */
  read(chainId: number): Promise<RegisteredGenerations>
  /** Claims the number of a generation; resolves with false if another replica has it. */
  claim(chainId: number, generation: number, known: GenerationRecord): Promise<boolean>
  /** Reads the chain and generation that this process's upstreams last had. */
  rememberedUpstreams(): Promise<readonly UpstreamChain[]>
}
