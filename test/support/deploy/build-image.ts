import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { runProgram } from '../run-npm.js'
import { copyOf, type Instruction, type BuildStage } from './dockerfile.js'
import { checkoutRoot } from './manifests.js'

/** Results of a Dockerfile's steps, built without an engine: a folder for each stage. */
export interface BuiltImage {
  readonly dir: string
  /** Folder of the last stage. */
  readonly image: string
}

/**
 * Runs the steps of a Dockerfile. Base images are empty except for this Node.js in a stage named `node`. RUN uses this
 * machine's programs; absolute paths are inside the stage's folder.
 */
export async function buildImage (stages: readonly BuildStage[], dir: string): Promise<BuiltImage> {
  const context = contextIn(join(dir, 'context'))
  const folderOf = (stage: BuildStage): string => join(dir, stage.name ?? 'image')
  for (const stage of stages) {
    const folder = folderOf(stage)
    mkdirSync(folder, { recursive: true })
    if (stage.name === 'node') bringNode(folder)
    let workdir = '/'
    for (const step of stage.steps) {
      if (step.name === 'WORKDIR') mkdirSync(join(folder, workdir = step.text), { recursive: true })
      if (step.name === 'COPY') copy(step, folder, workdir, from => from === undefined ? context : join(dir, from))
      if (step.name === 'RUN') await run(step, folder, workdir)
    }
  }
  return { dir, image: join(dir, 'image') }
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

// Copies Node.js to the path of the official images.
function bringNode (folder: string): void {
  mkdirSync(join(folder, 'usr/local/bin'), { recursive: true })
  cpSync(process.execPath, join(folder, 'usr/local/bin/node'), { dereference: true })
  writeFileSync(join(folder, 'usr/local/LICENSE'), 'the licence of Node\n')
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

async function run ({ text }: Instruction, folder: string, workdir: string): Promise<void> {
  const made = text.replace(/(?<=\s)\/image\b/g, join(folder, 'image'))
  const { code, stdout, stderr } = await runProgram('sh', ['-ec', made], { cwd: join(folder, workdir) })
  if (code !== 0) throw new Error(`RUN ${text} ended with ${code}:\n${stdout}${stderr}`)
}

function isDirectory (path: string): boolean {
  try {
    return readdirSync(path) !== undefined
  } catch {
    return false
  }
}
