import { cpSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { copyOf, type Instruction, type BuildStage } from './dockerfile.js'
import { addNode, copyRoot, installDebian, runIn } from './fresh-root.js'
import { checkoutRoot } from './checkout.js'

/**
 * Runs the steps of a Dockerfile without an engine, each stage in a root of its own, and returns the last stage's root.
 * Debian's smallest system stands for the bases, with this Node.js where the base is Node.js.
 */
export async function buildImage (stages: readonly BuildStage[], dir: string): Promise<string> {
  const context = contextIn(join(dir, 'context'))
  const debian = join(dir, 'debian')
  await installDebian(debian)
  const rootOf = (name: string | undefined): string => join(dir, `stage-${name ?? 'last'}`)
  for (const { image, name, steps } of stages) {
    const root = rootOf(name)
    await copyRoot(debian, root)
    if (image.startsWith('node:')) await addNode(root, steps.length > 0)
    let workdir = '/'
    for (const step of steps) {
      if (step.name === 'WORKDIR') mkdirSync(join(root, workdir = step.text), { recursive: true })
      if (step.name === 'COPY') copy(step, root, workdir, from => from === undefined ? context : rootOf(from))
      if (step.name === 'RUN') await runIn(root, workdir, step.text)
    }
  }
  return rootOf(stages.at(-1)?.name)
}

// Returns the build context: `.dockerignore` excludes everything but the named paths.
function contextIn (folder: string): string {
  mkdirSync(folder, { recursive: true })
  const [all, ...named] = readFileSync(join(checkoutRoot, '.dockerignore'), 'utf8').split('\n').filter(line =>
    line !== '' && !line.startsWith('#')
  )
  if (all !== '*' || named.some(line => !/^![\w.-]+$/.test(line))) throw new Error('a .dockerignore of another kind')
  for (const line of named) cpSync(join(checkoutRoot, line.slice(1)), join(folder, line.slice(1)), { recursive: true })
  return folder
}

function copy (
  { text }: Instruction,
  folder: string,
  workdir: string,
  originOf: (from: string | undefined) => string
): void {
  const { from, sources, to } = copyOf(text)
  const target = join(folder, to.startsWith('/') ? '' : workdir, to)
  const isFolder = to.endsWith('/')
  for (const source of sources) {
    const origin = join(originOf(from), source)
    // Copies the contents of a folder, not the folder.
    const into = isFolder && !isDirectory(origin) ? join(target, source.slice(source.lastIndexOf('/') + 1)) : target
    mkdirSync(dirname(into), { recursive: true })
    cpSync(origin, into, { recursive: true, verbatimSymlinks: true })
  }
}

function isDirectory (path: string): boolean {
  try {
    return readdirSync(path) !== undefined
  } catch {
    return false
  }
}
