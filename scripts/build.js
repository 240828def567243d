import { existsSync } from 'node:fs'
import { compileAfresh } from './compile.js'
import { at, giveUpOn, requireNode } from './ground.js'
import { install } from './install.js'

requireNode()
// Packages that were put there by hand are taken as they are: an image installs them in a layer of its own.
if (!existsSync(at('node_modules/typescript'))) giveUpOn(await install())
giveUpOn(await compileAfresh())
