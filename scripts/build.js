import { existsSync } from 'node:fs'
import { recompile } from './compile.js'
import { at, giveUpOn, requireNode } from './ground.js'
import { install } from './install.js'

requireNode()
// Image builds install packages in an earlier layer; an existing node_modules is used as it is.
if (!existsSync(at('node_modules/typescript'))) giveUpOn(await install())
giveUpOn(await recompile())
