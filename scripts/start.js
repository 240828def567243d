import { pathToFileURL } from 'node:url'
import { cli, compile } from './compile.js'
import { at, giveUpOn, requireNode } from './ground.js'
import { install } from './install.js'

requireNode()
giveUpOn(await install())
giveUpOn(await compile())

// In this very process, so that signals reach the server and its exit code is the exit code.
process.argv = [process.execPath, at(cli), 'serve', ...process.argv.slice(2)]
await import(pathToFileURL(at(cli)).href)
