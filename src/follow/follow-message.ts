import { type FollowState, type FollowUpdate } from './follower.js'

/** Message of the process that reads the tail to the other processes of this varve. */
export type FollowEvent =
  | { readonly kind: 'update', readonly update: FollowUpdate }
  | { readonly kind: 'state', readonly state: Exclude<FollowState, 'following'>, readonly reason: string | undefined }
  | { readonly kind: 'clear' }

/** Need of a process for the tail that another one reads. */
export interface TailDemand {
  /** Reads that needed no upstream request since the last demand. */
  readonly saved: number
  /** True if a read waits for the tail. */
  readonly isUrgent: boolean
}
