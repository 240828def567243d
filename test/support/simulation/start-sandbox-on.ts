import { type Sandbox, startSandbox } from '#sandbox'
import { type Era } from '../model/chain.js'

/** Starts an embedded node on the chain of an era, up to its current head. */
export async function startSandboxOn (
  { settings, startUsec, archive }: Era,
  windowBlocks: number,
  release: string
): Promise<Sandbox> {
  const options = { ...settings, release, windowBlocks, blocks: archive.height + 1, prunedBlocks: 0 }
  // Passes startUsec to the ledger, although it is no public option.
  return await startSandbox(Object.assign(options, { startUsec }))
}
