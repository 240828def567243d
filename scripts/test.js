import { runFast } from './fast.js'
import { close } from './tap.js'

close(await runFast(...process.argv.slice(2)))
