import { register } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'
import { isMainThread } from 'node:worker_threads'
import { compile } from './compile.js'
import { giveUpOn } from './ground.js'

// Shows which files a request passes, by the functions that run for it, and how often it returns to a folder.
const folder = new URL('../dist/', import.meta.url).href
const byVersion = version => `/v1/transactions/by_version/${version}`
const walks = {
  // Bytes are known from the second hit on.
  hit: { before: [byVersion(100), byVersion(100), byVersion(100)], target: byVersion(100) },
  miss: { before: [byVersion(100)], target: byVersion(101) },
  latest: { before: ['/v1/accounts/0x1'], target: '/v1/accounts/0x2' },
  forwarded: { before: ['/v1/spec'], target: '/v1/spec' },
  // The read finds another chain at the node.
  reset: { before: [byVersion(100)], target: byVersion(101), change: { kind: 'otherChain', blocks: 400 } }
}
// Work of one request ends within the second time, and little other work begins in it.
const [settleMs, traceMs] = [300, 10]

if (isMainThread) {
  giveUpOn(await compile())
  register(import.meta.url)
  const { startVarve } = await import(`${folder}app/embedding.js`)
  const { startSandbox } = await import(`${folder}sandbox/sandbox.js`)
  const names = process.argv.slice(2)
  if (names.some(name => !(name in walks))) giveUpOn(`usage: node scripts/walk.js [${Object.keys(walks).join('|')}]...`)
  for (const name of names.length === 0 ? Object.keys(walks) : names) await walk(name, startVarve, startSandbox)
}

/** Hook of Node's loader, in a thread of its own: makes every function of the program name its file as it begins. */
export async function load (url, context, next) {
  const loaded = await next(url, context)
  const isOfProgram = url.startsWith(folder) && !url.startsWith(`${folder}sandbox/`)
  return isOfProgram ? { ...loaded, source: await naming(String(loaded.source), url.slice(folder.length)) } : loaded
}

async function naming (source, file) {
  const { default: ts } = await import('typescript')
  const named = `globalThis.walked?.push('${file.replace(/\.js$/, '.ts')}')`
  const inserted = []
  const visit = node => {
    if (ts.isFunctionLike(node) && node.body !== undefined) {
      if (ts.isBlock(node.body)) inserted.push([node.body.getStart() + 1, `${named};`])
      else inserted.push([node.body.getStart(), `(${named}, `], [node.body.getEnd(), ')'])
    }
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(file, source, ts.ScriptTarget.ESNext, true))
  // Two insertions at one place keep their order: an inner function begins after its outer one.
  return inserted.toSorted(([a], [b]) => b - a).reduce(
    (text, [at, words]) => text.slice(0, at) + words + text.slice(at),
    source
  )
}

async function walk (name, startVarve, startSandbox) {
  const { before, target, change } = walks[name]
  const node = await startSandbox({ blocks: 300, prunedBlocks: 0 })
  const varve = await startVarve({
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0' },
    upstreams: [{ name: 'node', url: node.url }],
    head: { pollMs: 600_000 },
    log: { level: 'silent' }
  })
  const read = async path => await (await fetch(`${varve.url}${path}`)).arrayBuffer()
  for (const path of before) await read(path)
  await pause(settleMs)
  if (change !== undefined) node.faults.add(change)
  globalThis.walked = []
  await read(target)
  await pause(traceMs)
  const files = globalThis.walked
  globalThis.walked = undefined
  await varve.close()
  await node.close()
  show(name, files)
}

function show (name, files) {
  const order = [...new Set(files)]
  const folderOf = file => file.slice(0, Math.max(0, file.lastIndexOf('/')))
  const left = new Set()
  let returns = 0
  files.forEach((file, index) => {
    const [from, to] = [folderOf(files[index - 1] ?? file), folderOf(file)]
    if (from === to) return
    left.add(from)
    if (left.has(to)) returns++
  })
  console.log(
    `${name}: ${files.length} functions in ${order.length} files, ${returns} returns to a folder already left`
  )
  for (const file of order) console.log(`  ${file}`)
}
