import asyncHooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'
import { env } from 'node:process'
import { pathToFileURL } from 'node:url'

// Imports test files in turn in this process, which `run-files.js` starts.
const { files, endOfFile, timeoutSeconds } = JSON.parse(env.TEST_GROUP)
// Keeps programs under test from inheriting it.
delete env.TEST_GROUP
// Names the folders of tap's fixtures, which must differ between processes.
process.argv[1] = files[0]
// Spares the hooks by which tap follows each promise, to name the test of an error that nothing awaits: such an error
// ends the process, which fails the file too.
const { createHook } = asyncHooks
asyncHooks.createHook = () => ({ enable () {}, disable () {} })
syncBuiltinESMExports()
const { default: t } = await import('tap')
Object.assign(asyncHooks, { createHook })
syncBuiltinESMExports()

for (const file of files) {
  t.setTimeout(timeoutSeconds * 1000)
  try {
    await import(pathToFileURL(file).href)
  } catch (error) {
    t.test('the file can be loaded', async () => {
      throw error
    })
  }
  // Runs after the file's tests, since top-level tests run one at a time.
  await t.test(endOfFile, async () => {})
}

// A natural end of Node turns for ever if a socket was reset while it ended.
process.on('beforeExit', () => {
  if (t.results !== undefined) process.exit()
})
