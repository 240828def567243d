import { type SpaceChange, type StoredSpace } from './folder-spaces.js'

/** Size of the files of the disk tier, which the primary process counts for all workers. */
export interface FolderSize {
  readonly bytes: number
  readonly entries: number
  readonly maxBytes: number
  /** False until the files are counted: nothing is written before. */
  readonly isCounted: boolean
}

/** Folder of the disk tier as a worker finds it. */
export interface FolderState {
  readonly path: string
  readonly spaces: readonly StoredSpace[]
  readonly size: FolderSize
}

/** Messages about the folder of the disk tier to a worker. */
export type DiskToWorker =
  | { readonly kind: 'disk_spaces', readonly spaces: readonly StoredSpace[] }
  | { readonly kind: 'disk_size', readonly size: FolderSize }
  | { readonly kind: 'disk_changed', readonly id: number, readonly error?: string }

/** Messages about the folder of the disk tier to the primary process. */
export type DiskToPrimary =
  | { readonly kind: 'disk_change', readonly id: number, readonly change: SpaceChange }
  | { readonly kind: 'disk_used', readonly bytes: number, readonly entries: number }
