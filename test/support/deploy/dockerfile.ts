/** An instruction of a Dockerfile, with its lines joined. */
export interface Instruction {
  readonly name: string
  readonly text: string
}

/** Instructions from one FROM to the next. */
export interface BuildStage {
  readonly image: string
  readonly name: string | undefined
  readonly steps: readonly Instruction[]
}

/** Reads a Dockerfile of instructions and comments. */
export function readStages (dockerfile: string): BuildStage[] {
  const stages: Array<{ image: string, name: string | undefined, steps: Instruction[] }> = []
  const lines = dockerfile.split('\n').filter(line => !line.startsWith('#')).join('\n').replace(/\\\n\s*/g, '').split(
    '\n'
  ).filter(line => line !== '')
  for (const line of lines) {
    const [, name = '', text = ''] = /^([A-Z]+) (.+)$/.exec(line) ?? []
    if (name === 'FROM') {
      const [, image = '', stage] = /^(?:--platform=\S+ )?(\S+)(?: AS (\S+))?$/.exec(text) ?? []
      stages.push({ image, name: stage, steps: [] })
    } else stages.at(-1)?.steps.push({ name, text: text.replace(/\s+/g, ' ') })
  }
  return stages
}

/** Returns the last instruction of a name. */
export function lastInstruction ({ steps }: BuildStage, name: string): string {
  return steps.filter(step => step.name === name).at(-1)?.text ?? ''
}

/** Returns the pairs of `KEY=value KEY="a value"` in ENV or LABEL. */
export function pairsOf (text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/([\w.]+)=(?:"([^"]*)"|(\S+))/g)].map((
      [, key = '', quoted, plain]
    ) => [key, quoted ?? plain ?? ''])
  )
}

/** Returns the command of a HEALTHCHECK, ENTRYPOINT or CMD that runs without a shell. */
export function commandOf (text: string): string[] {
  return JSON.parse(text.slice(text.indexOf('['))) as string[]
}

/** Returns sources and target of a COPY. */
export function copyOf (text: string): { from: string | undefined, sources: string[], to: string } {
  const words = text.split(' ')
  const from = words.find(word => word.startsWith('--from='))?.slice('--from='.length)
  const paths = words.filter(word => !word.startsWith('--'))
  return { from, sources: paths.slice(0, -1), to: paths.at(-1) ?? '' }
}
