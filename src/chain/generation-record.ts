import { type Anchor } from './anchors.js'
import { type ResponsePosition } from '../api/position.js'

/** Anchors and head of a generation. */
export interface GenerationRecord {
  readonly anchors: readonly Anchor[]
  readonly head: ResponsePosition | undefined
}

/** Record of a generation without known anchors or head. */
export const emptyGenerationRecord: GenerationRecord = { anchors: [], head: undefined }

/** Chain and generation that an upstream last had, with anchors that prove it if the registry lost the number. */
export interface UpstreamChain extends GenerationRecord {
  readonly chainId: number
  readonly generation: number
}
