import { type Config } from '../config/schema.js'
import { type Witness } from '../moving/proof.js'
import { readFinalBlock } from '../nodes/final-block.js'
import { readHead } from '../nodes/head-poll.js'
import { LedgerNode } from '../nodes/node.js'
import { namedIn } from './nodes.js'

/** A node that a command asks for its chain. */
export interface OpenWitness extends Witness {
  close (): Promise<void>
}

const longestAnswer = 1024 * 1024

/** The nodes of a configuration, for a command that asks them which chain they have; none where none is configured. */
export function witnessesOf (config: Config, now: () => number): OpenWitness[] {
  return namedIn(config, undefined).map(upstream => {
    const node = new LedgerNode({ ...upstream, maxGatheredBytes: longestAnswer, now }, { asked: () => {} })
    return {
      name: upstream.name,
      readHead: async () => await readHead(async question => await node.ask(question)),
      readBlock: async height => await readFinalBlock(async question => await node.ask(question), height),
      close: async () => { await node.close() }
    }
  })
}
