import { type Config } from '../../config/schema.js'
import { type Witness } from './proof.js'
import { readFinalBlock } from '../../chain/final-block.js'
import { readHead } from '../../chain/head-poll.js'
import { LedgerNode } from '../../upstreams/node.js'
import { namedIn } from '../../app/nodes.js'

/** A node that a command asks for its chain. */
export interface OpenWitness extends Witness {
  close(): Promise<void>
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
      close: async () => {
        await node.close()
      }
    }
  })
}
